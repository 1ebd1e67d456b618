#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/runs/source_reader.h"
#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/metric.h"

namespace hooked {

/// Which gradients are asked for, and how they are computed.
struct GradientAsk {
  std::vector<ActivationName> of;         ///< full names
  std::vector<ActivationName> keep = {};  ///< whose values are wanted, without a gradient
  /// For these the gradients are with respect to the input of hooks and edits there, not to their output.
  std::vector<ActivationName> of_what_edits_read = {};
  HeldInGradient hold = {};
  std::int64_t layers_at_once = 0;  ///< 0: all
  RunOptions run = {};              ///< standing hooks and edits, threads
  bool skip_unread = false;         ///< as in GradientRequest: values that meet no gradient may be zeros
};

/// Called with some of the activations and their gradients; each one comes once.
using TakeGradients = std::function<void(const ActivationCache& values, const ActivationCache& gradients)>;

/// Differentiates the sum of a metric's scores over the rows that it is bound to. Returns the scores, [row].
/// Throws HookError as described at `layers_at_once` of AttributionPatchingOptions.
at::Tensor gradient_run(const HookedTransformer& model, const Input& input, const BoundMetric& metric,
                        const GradientAsk& ask, const TakeGradients& take);

/// Gradients, or their sum over several runs.
class GradientSum {
 public:
  /// Adds a share of each of these.
  void add(const ActivationCache& gradients, double share);
  const ActivationCache& sum() const noexcept { return sum_; }

 private:
  ActivationCache sum_;
};

/// A score that is at most this much above a metric's minimum may be only rounding, in a model of that dtype.
inline double rounding_of_least_score(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-10 : dtype == at::kFloat ? 1e-5 : 1e-3;
}

/// Throws HookError if a metric is at its minimum, as a divergence of a run from itself: its slope there is
/// zero, and gradients say nothing. `scores` are those of the run that is differentiated.
void require_slope(const HookedTransformer& model, const BoundMetric& metric, const at::Tensor& scores);

/// The way from one run to another for what the blocks read first, in both stacks if there are two.
class InputWay {
 public:
  /// For these rows of an input; `plain` is a run of them that has kept entries().
  InputWay(const HookedTransformer& model, const PatchSource& from, const ActivationCache& plain,
           const std::vector<SweptRow>& rows);

  /// The streams before the first blocks.
  static std::vector<ActivationName> entries(const HookedTransformer& model);
  /// Edits that put a run at this share of the way: 0 is `plain`, 1 is `from`.
  Edits at(double share) const;

 private:
  std::vector<ActivationName> names_;
  std::vector<at::Tensor> here_, there_;
};

/// Whether all gradients of an integration are those of the run without patches.
bool stays_at_the_run(const Integration& integration);

/// The number of gradients that it averages.
inline std::int64_t gradients_of(const Integration& integration) {
  return integration.over == IntegrateOver::nothing ? 1 : integration.steps;
}

/// How far along the way the i-th step of an integration is. Throws HookError for less than one step.
double step_of(const Integration& integration, std::int64_t i);

/// Hooks that stop gradients at what is held.
Hooks holding(const HeldInGradient& hold);

/// The input that starts from the stream [row, pos, d_model] before a block, for a model with one stack.
Input from_stream(const Input& input, std::int64_t layer, at::Tensor stream);

}  // namespace hooked
