#pragma once

#include <ATen/core/Tensor.h>

#include "analysis/cell_plan.h"
#include "hooked/core/model_config.h"

namespace hooked {

/// What gradients say that the patches of one row would change, [patch] float64 on the CPU: the sum of
/// (value - unpatched value) . gradient. `gradients` are of that row. Throws HookError for ids, which have
/// none.
at::Tensor first_order(const CellPatches& made, const PatchedRuns& runs, const ActivationCache& gradients);

/// Throws HookError for cells that are not queries or keys of the stack that predicts, and for keys of a
/// layer where hooks or edits change the attention probabilities: what one key does to these is no longer
/// known.
void require_query_key(const CellGroup& group, const HookedTransformer& model, const SweepOptions& sweep);

/// What first_order() says, for patches of the queries or the keys of one layer, where what they make of the
/// attention probabilities is computed and the gradient with respect to these is used. The run must have kept
/// resid_pre, q or k, scores and pattern of the layer. Throws HookError for patches of a part of a head's
/// numbers, and for two patches that put different things into one place. `normed`: what a norm
/// on the queries, or the keys, spans.
at::Tensor through_patterns(const CellPatches& made, const ActivationName& name, const PatchedRuns& runs,
                            const ActivationCache& gradients, QkNorm::Span normed);

}  // namespace hooked
