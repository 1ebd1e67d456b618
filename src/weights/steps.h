#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/weights/processing.h"
#include "weights/stored_numbers.h"
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

/// One processing step. The functions that change weights get the config before the step and only run if
/// `obstacle` is nothing; `update` turns that config into the one after it.
struct StepDefinition {
  ProcessingStep step;
  std::optional<Obstacle> (*obstacle)(const ModelConfig& before);
  /// Why the numbers of a part forbid the step although its config allows it: a number is not finite, or so
  /// large that the dtype loses what the step should keep.
  std::optional<std::string> (*risk)(const StoredNumbers& numbers, const WeightPart& part,
                                     const ModelConfig& before);
  void (*apply)(WorkingWeights& part, const ModelConfig& before);  ///< to a block, or to the rest
  void (*update)(ModelConfig& config);
};

StepDefinition fold_ln_step();
StepDefinition center_writing_weights_step();
StepDefinition center_unembed_step();
StepDefinition fold_value_biases_step();
StepDefinition refactor_attention_step();

/// Gives a tied model an unembedding of its own, W_U = W_E^T, before a step changes one side only.
void untie(WorkingWeights& ends, const ModelConfig& before);

/// Why nothing moves from values and their biases to the output.
std::optional<Obstacle> obstacle_behind_values(const ModelConfig& config);

/// The places of attention in a block, `attn` and, if there is one, `cross_attn`; none outside the blocks,
/// and none in blocks with something else instead of attention.
std::vector<std::string> attentions_of(const WeightPart& part, const ModelConfig& config);

/// Moves the value biases of an attention into its b_O: b_O := b_O + the sum over heads of b_V W_O [d_model],
/// with b_V repeated over the heads that share it, and b_V := 0. The model must have value biases; a missing
/// b_O counts as zero.
void move_value_biases(WorkingWeights& block, const std::string& attention, const ModelConfig& before);

}  // namespace hooked::weights
