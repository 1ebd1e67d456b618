#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

// What a norm does to what is read through it; docs/layernorm.md has the formulas. Below c(x) is x less its
// mean under LayerNorm and x under RMSNorm, N is d_model, and a logit (difference) is that before any soft
// cap.

/// A logit (difference) as it is read from the end of the stream: probe . LN(x) + bias, where LN is the final
/// norm without weight and bias, which are in probe and bias.
struct NormedLogit {
  at::Tensor probe;  ///< [row, d_model] float64, centred where the norm centres
  at::Tensor bias;   ///< [row] float64, in logits
  /// [row, quantity, pos]: `logit`, which is `probe length` times `normed length` times `cosine` (of probe
  /// and c(x)) plus `bias`; `normed length` is sqrt(N) |c(x)| / sqrt(|c(x)|^2 + N eps), `stream length` is
  /// |c(x)|; `remainder` is what the run's logit is besides `logit`: rounding, or what hooks and edits behind
  /// the stream (the norm's scale, what it made, what the unembedding read and gave) did to it, as far as the
  /// cache shows it.
  Grid terms;
};

/// Throws what direct_logit_attribution throws, and HookError for models without a final norm. The grain
/// counts for nothing here.
NormedLogit normed_logit(const HookedTransformer& model, const ActivationCache& cache,
                         const AttributionOptions& options);

/// What each part of the stream is to its length and to its angle with the probe of a logit.
struct NormShares {
  Grid length;  ///< [row, part, pos]: <c(part), c(x)> / |c(x)|^2; they add up to 1
  Grid cosine;  ///< [row, part, pos]: <probe, c(part)> / (|probe| |c(x)|); they add up to the cosine
};

/// The shares of residual_parts of the end of the stream. Throws as normed_logit.
NormShares norm_shares(const HookedTransformer& model, const ActivationCache& cache,
                       const AttributionOptions& options);

/// What a logit (difference) loses or gains when one part is taken out of the end of the stream.
struct LeaveOneOut {
  Grid exact;   ///< [row, part, pos] in logits: the norm takes the size of what is left
  Grid frozen;  ///< the same with the norm's scale held: minus the part in direct_logit_attribution
};

/// For each of residual_parts of the end of the stream. How far the two are apart says how much of the
/// stream's size the part is. `exact` is of the model's own final norm, whatever hooks and edits did to it in
/// the run; `frozen` has the scale of the run. Throws as normed_logit.
LeaveOneOut leave_one_out(const HookedTransformer& model, const ActivationCache& cache,
                          const AttributionOptions& options);

/// Where reading without a norm is measured. For designated initialisers.
struct UnnormedReadingOptions {
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
  Stack stack = Stack::none;  ///< on an encoder-decoder: the decoder's MLPs, or the encoder's
};

/// What is lost by reading the stream x of an MLP without its norm, x W_in instead of LN(x) W_in (and
/// W_gate): a Grid [row, layer, quantity, pos] of `cosine` of the two; `error`, the length of their
/// difference over that of LN(x) W_in; and `error with scale`, the same where x is divided by the norm's
/// scale, which leaves what centring, weight and bias do. NaN for layers without an ordinary MLP. The norm is
/// ln2, in a decoder of two stacks ln3; needs its scale and what it made, and the stream before it:
/// resid_mid, resid_pre in parallel blocks, resid_mid_cross in such a decoder. Throws HookError where one is
/// missing and for models without norms before their MLPs.
Grid unnormed_reading(const HookedTransformer& model, const ActivationCache& cache,
                      const UnnormedReadingOptions& options = {});

}  // namespace hooked
