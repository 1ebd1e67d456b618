#pragma once

#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/weights/processing.h"
#include "weights/steps.h"
#include "weights/working_weights.h"

namespace hooked::weights {

/// The requested processing of models of one config: planned once, then applied to the weights part by part,
/// so that only one part has to be in memory.
class Processor {
 public:
  /// Plans by the config and, if given, by the numbers that the steps would change; `numbers` is read here
  /// and not kept. Throws ConfigError as process_weights does.
  Processor(const ModelConfig& config, const WeightProcessing& processing,
            const StoredWeights& numbers = nullptr);

  /// The config of the processed model.
  const ModelConfig& after() const noexcept { return after_; }
  const std::vector<StepReport>& report() const noexcept { return report_; }

  /// The changed weights of a part; all others stay as they are. Blocks may read weights outside the
  /// blocks, so parts are processed in the order of weight_parts. Throws CheckpointError as process_weights
  /// does.
  Changes changes(const StoredWeights& stored, const WeightPart& part) const;

 private:
  /// A step that will be applied, and the config of the model it is applied to.
  struct Scheduled {
    const StepDefinition* step;
    ModelConfig before;
  };

  std::string outcome(const StepDefinition& step, const WeightProcessing& processing,
                      const StoredWeights& numbers);

  ModelConfig config_;
  ModelConfig after_;
  std::vector<Scheduled> steps_;
  std::vector<StepReport> report_;
};

}  // namespace hooked::weights
