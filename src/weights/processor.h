#pragma once

#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/weights/processing.h"
#include "weights/steps.h"
#include "weights/working_weights.h"

namespace hooked::weights {

/// The wanted processing of models of one config: planned once, then applied to one part of the weights after
/// another, so that no more than a part need be at hand.
class Processor {
 public:
  /// Plans by the config and, where they are given, by the numbers that the steps would change; `numbers` is
  /// read here and not kept. Throws ConfigError as process_weights does.
  Processor(const ModelConfig& config, const WeightProcessing& processing,
            const StoredWeights& numbers = nullptr);

  /// The config of the processed model.
  const ModelConfig& after() const noexcept { return after_; }
  const std::vector<StepReport>& report() const noexcept { return report_; }

  /// What becomes of the weights of a part; weights that it does not name stay as they are. Blocks may read
  /// weights outside the blocks, so parts are processed in the order of weight_parts. Throws CheckpointError
  /// as process_weights does.
  Changes changes(const StoredWeights& stored, const WeightPart& part) const;

 private:
  /// A step that will be applied, and the config of the model it meets.
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
