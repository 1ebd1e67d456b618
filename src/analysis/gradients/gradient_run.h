#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/runs/source_reader.h"
#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/metric.h"

namespace hooked {

/// Of what gradients are asked for, and how they are computed.
struct GradientAsk {
  std::vector<ActivationName> of;         ///< full names
  std::vector<ActivationName> keep = {};  ///< whose values are wanted, and no gradient
  /// Of these the gradients are those of what hooks and edits there are given, not of what they return.
  std::vector<ActivationName> of_what_edits_read = {};
  HeldInGradient hold = {};
  std::int64_t layers_at_once = 0;  ///< 0: all
  RunOptions run = {};              ///< standing hooks and edits, threads
  bool skip_unread = false;         ///< as GradientRequest has it: values that meet no gradient may be zeros
};

/// Called with what some of the activations are, and their gradients; every one comes once.
using TakeGradients = std::function<void(const ActivationCache& values, const ActivationCache& gradients)>;

/// Differentiates the sum of a metric's scores of the rows that it is bound to. Gives the scores, [row].
/// Throws HookError as `layers_at_once` of AttributionPatchingOptions says.
at::Tensor gradient_run(const HookedTransformer& model, const Input& input, const BoundMetric& metric,
                        const GradientAsk& ask, const TakeGradients& take);

/// Throws HookError where a metric scores the least that it can be, as a divergence of a run from itself: it
/// has no slope there, and gradients say nothing. `scores` are those of the run that is differentiated.
void require_slope(const HookedTransformer& model, const BoundMetric& metric, const at::Tensor& scores);

/// A share of the way from one value to another; where both are the same, -inf among it, that.
at::Tensor between(const at::Tensor& here, const at::Tensor& there, double share);

/// The way of what the blocks read first, of both stacks where there are two, from one run to another.
class InputWay {
 public:
  /// Of these rows of an input, which `plain` is a run of: it has kept entries().
  InputWay(const HookedTransformer& model, const PatchSource& from, const ActivationCache& plain,
           const std::vector<SweptRow>& rows);

  /// The streams before the first blocks.
  static std::vector<ActivationName> entries(const HookedTransformer& model);
  /// Edits that put a run so far along it: 0 is `plain`, 1 is `from`.
  std::vector<Edit> at(double share) const;

 private:
  std::vector<ActivationName> names_;
  std::vector<at::Tensor> here_, there_;
};

/// Whether all gradients of an integration are those of the run without patches.
bool stays_at_the_run(const Integration& integration);

/// How far along the way the i-th step of an integration is. Throws HookError for less than one step.
double step_of(const Integration& integration, std::int64_t i);

/// Hooks that let no gradient through what is held.
std::vector<Hook> holding(const HeldInGradient& hold);

/// The input from the stream [row, pos, d_model] before a block on, of a model with one stack.
Input from_stream(const Input& input, std::int64_t layer, at::Tensor stream);

}  // namespace hooked
