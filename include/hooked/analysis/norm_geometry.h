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

// How a norm affects what is read through it; docs/layernorm.md has the formulas. Below, c(x) is x minus its
// mean for LayerNorm and x for RMSNorm, N is d_model, and a logit (difference) is the one before any soft
// cap.

/// A logit (difference) as it is read from the end of the stream: probe . LN(x) + bias, where LN is the final
/// norm without weight and bias, which are included in probe and bias.
struct NormedLogit {
  at::Tensor probe;  ///< [row, d_model] float64, centred if the norm centres
  at::Tensor bias;   ///< [row] float64, in logits
  /// [row, quantity, pos]: `logit`, which is `probe length` times `normed length` times `cosine` (of probe
  /// and c(x)) plus `bias`; `normed length` is sqrt(N) |c(x)| / sqrt(|c(x)|^2 + N eps), `stream length` is
  /// |c(x)|; `remainder` is the run's logit minus `logit`: rounding, or the effect of hooks and edits after
  /// the stream (on the norm's scale or output, on the unembedding's input or output), as far as the cache
  /// shows it.
  Grid terms;
};

/// Throws what direct_logit_attribution throws, and HookError for models without a final norm. The grain is
/// ignored here.
NormedLogit normed_logit(const HookedTransformer& model, const ActivationCache& cache,
                         const AttributionOptions& options);

/// How much each part of the stream adds to its length and to its cosine with the probe of a logit.
struct NormShares {
  Grid length;  ///< [row, part, pos]: <c(part), c(x)> / |c(x)|^2; they add up to 1
  Grid cosine;  ///< [row, part, pos]: <probe, c(part)> / (|probe| |c(x)|); they add up to the cosine
};

/// The shares of residual_parts of the end of the stream. Throws as normed_logit.
NormShares norm_shares(const HookedTransformer& model, const ActivationCache& cache,
                       const AttributionOptions& options);

/// How a logit (difference) changes when one part is removed from the end of the stream.
struct LeaveOneOut {
  Grid exact;   ///< [row, part, pos] in logits: the norm is recomputed from what is left
  Grid frozen;  ///< the same with the norm's scale held: minus the part in direct_logit_attribution
};

/// For each of residual_parts of the end of the stream. The gap between the two says how much of the stream's
/// size the part is. `exact` uses the model's own final norm, whatever hooks and edits did to it in the run;
/// `frozen` uses the scale of the run. Throws as normed_logit.
LeaveOneOut leave_one_out(const HookedTransformer& model, const ActivationCache& cache,
                          const AttributionOptions& options);

/// Where reading without a norm is measured. For designated initialisers.
struct UnnormedReadingOptions {
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
  Stack stack = Stack::none;  ///< on an encoder-decoder: the decoder's MLPs, or the encoder's
};

/// What is lost by reading the stream x of an MLP without its norm, x W_in instead of LN(x) W_in (and
/// W_gate): a Grid [row, layer, quantity, pos] of `cosine` of the two; `error`, the length of their
/// difference over that of LN(x) W_in; and `error with scale`, the same with x divided by the norm's scale,
/// so that only centring, weight and bias differ. NaN for layers without an ordinary MLP. The norm is ln2, in
/// a decoder of two stacks ln3. Needs the norm's scale and output, and the stream before it: resid_mid,
/// resid_pre in parallel blocks, resid_mid_cross in such a decoder. Throws HookError if one is missing and
/// for models without norms before their MLPs.
Grid unnormed_reading(const HookedTransformer& model, const ActivationCache& cache,
                      const UnnormedReadingOptions& options = {});

}  // namespace hooked
