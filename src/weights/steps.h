#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "hooked/core/model_config.h"
#include "hooked/weights/processing.h"
#include "weights/working_weights.h"

namespace hooked::weights {

/// Why a step does nothing to a model.
struct Obstacle {
  enum class Kind {
    nothing_to_do,  ///< the model has nothing that the step works on
    would_change,   ///< the step would change the model's log-probabilities
  };
  Kind kind;
  std::string reason;
};

/// One processing step. The functions that change weights get the config as it is before the step and only
/// run where `obstacle` is nothing; `update` turns that config into the one after it.
struct StepDefinition {
  ProcessingStep step;
  std::string_view name;
  std::optional<Obstacle> (*obstacle)(const ModelConfig& before);
  void (*apply_to_block)(WorkingWeights& block, const ModelConfig& before);
  void (*apply_to_ends)(WorkingWeights& ends,
                        const ModelConfig& before);  ///< embeddings, final norm, unembedding
  void (*update)(ModelConfig& config);
};

StepDefinition fold_ln_step();
StepDefinition center_writing_weights_step();
StepDefinition center_unembed_step();
StepDefinition fold_value_biases_step();
StepDefinition refactor_attention_step();

/// The table of steps, in the order of kProcessingSteps.
const std::array<StepDefinition, kProcessingSteps.size()>& step_table();

/// For steps that leave the blocks, or the ends, as they are.
inline void leave_unchanged(WorkingWeights&, const ModelConfig&) {}

/// Gives a tied model an unembedding of its own, W_U = W_E^T, before a step changes one side only.
void untie(WorkingWeights& ends, const ModelConfig& before);

/// Why value biases cannot move into b_O beside attention sinks.
Obstacle sinks_obstacle();

/// b_O + the sum over heads of b_V W_O [d_model], with b_V repeated over the heads that share it. The model
/// must have value biases. Where it has no b_O, b_O counts as zero.
at::Tensor output_bias_with_values(WorkingWeights& block, const ModelConfig& before);

}  // namespace hooked::weights
