#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/metric.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// What to patch, from where, into what, scored how. For designated initialisers.
struct SweepOptions {
  act::BlockSite site;        ///< the kind of activation that is replaced
  std::vector<Axis> over;     ///< the grid's axes: Axis::layer and any of the site's own but batch
  ActivationCache from;       ///< the run that the replacing values come from: one row, all positions
  Input into = at::Tensor();  ///< what the run that is patched reads: one sequence, [pos] or [1, pos]
  Metric metric;              ///< scores each patched run, of its logits or of activations
  std::int64_t tokens_per_run = 1024;  ///< patched runs are computed together up to so many tokens
  Stack stack = Stack::none;           ///< whose layers: of the stack that predicts, or Stack::encoder
};

/// Activation patching: for every place on the axes `over`, runs `into` with the activation of `site` at that
/// place replaced by its value in `from`, and scores the logits with the metric.
///
/// An axis of the site that is not in `over` is replaced whole. `Axis::pos` stands for the query axis of
/// patterns and scores, `Axis::head` for the key/value heads of keys and values. The numbers equal those of
/// one full run per place up to rounding; what comes before a patched layer of the stack that predicts is
/// computed once. A layer without the site gives NaN.
///
/// Throws HookError for a site, an axis or a cache that does not fit, and ShapeError for tokens or a metric
/// that do not. (Method: Vig et al. 2020; Meng et al. 2022, "causal tracing"; Wang et al. 2023, "path
/// patching".)
Grid sweep(const HookedTransformer& model, const SweepOptions& options);

}  // namespace hooked
