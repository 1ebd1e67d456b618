#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/model_config.h"
#include "hooked/core/state_dict.h"

namespace HOOKED_EXPORT hooked {

/// The changes to a model's weights that leave its log-probabilities unchanged and make its parts easier to
/// read (Elhage et al. 2021, A Mathematical Framework for Transformer Circuits). They are applied in this
/// order.
enum class ProcessingStep : std::uint8_t {
  /// Gains and biases of ln1, ln2, ln_final and mlp.ln move into the weights that read them: W := w ⊙ W and b
  /// := b + β W; a LayerNorm's readers are centred over their input as well. The norms become weightless.
  fold_ln,
  /// Weights that write to the residual stream lose their mean over d_model, which every LayerNorm would
  /// remove.
  center_writing_weights,
  /// W_U and b_U lose their mean over the vocabulary: logits shift by a constant per position.
  center_unembed,
  /// b_O := b_O + Σ b_V W_O and b_V := 0, because the rows of a pattern sum to one.
  fold_value_biases,
  /// W_Q W_K^T and W_V W_O are refactored by their singular value decompositions.
  refactor_factored_attn_matrices,
};

/// Every step, in the order of application.
inline constexpr std::array kProcessingSteps = {
    ProcessingStep::fold_ln, ProcessingStep::center_writing_weights, ProcessingStep::center_unembed,
    ProcessingStep::fold_value_biases, ProcessingStep::refactor_factored_attn_matrices};

/// The step's name in config files and on the command line: `"fold_ln"`.
std::string_view processing_step_name(ProcessingStep step) noexcept;

/// The step of that name. Throws ConfigError with the nearest name for an unknown one.
ProcessingStep parse_processing_step(std::string_view name);

/// Which steps to apply. A value; the default is `all_that_apply()`.
class WeightProcessing {
 public:
  /// The first four steps, each if it preserves the function; otherwise it is skipped and the report says
  /// why.
  WeightProcessing() = default;
  /// The default by its name.
  static WeightProcessing all_that_apply() { return {}; }

  /// The weights as stored in the file.
  static WeightProcessing none() { return only({}); }

  /// Exactly these steps. A step that would not preserve the function is an error and never skipped.
  static WeightProcessing only(const std::vector<ProcessingStep>& steps);

  /// The same without a step.
  WeightProcessing without(ProcessingStep step) const;

  /// Whether `step` is to be applied if possible.
  bool wants(ProcessingStep step) const noexcept;

  /// Whether a wanted step that cannot be applied is an error.
  bool insists() const noexcept { return insists_; }

  bool operator==(const WeightProcessing&) const = default;

 private:
  std::array<bool, kProcessingSteps.size()> wanted_ = {true, true, true, true, false};
  bool insists_ = false;
};

/// The outcome of a step.
struct StepReport {
  ProcessingStep step;  ///< which one
  /// `"applied"`, `"already applied"`, `"not requested"`, or the reason why the step is not applied.
  std::string outcome;
};

/// A model's weights after processing, the config that describes them, and a report with one row per step.
struct ProcessedWeights {
  StateDict weights;               ///< both the changed and the unchanged weights
  ModelConfig config;              ///< of these weights
  std::vector<StepReport> report;  ///< a row for each step
};

/// What `process_weights` would do to a model of this config, one row per step in the order of application.
/// Cheap. Throws ConfigError as `process_weights` does.
std::vector<StepReport> plan_processing(const ModelConfig& config, const WeightProcessing& processing = {});

/// Applies the requested steps in float64, on named axes, layer by layer. Each tensor that changes is rounded
/// once, to the wider of its own dtype and `config.dtype`. Log-probabilities before and after agree up to
/// that rounding.
///
/// A pure function: no tensor is written in place, so tensors shared with the caller keep their values (move
/// the dict in to free each layer's old tensors as the new ones are made). Steps listed in
/// `config.processing` are not applied again. The returned config says which steps were applied and which
/// biases were added; a tied unembedding is untied first by the steps that change one side of it.
///
/// Throws ConfigError if a step of only() would change the function, with the reason, or if the config is not
/// valid; CheckpointError if a tensor that the config promises is missing or has another shape.
ProcessedWeights process_weights(StateDict weights, const ModelConfig& config,
                                 const WeightProcessing& processing = {});

}  // namespace hooked
