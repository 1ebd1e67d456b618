#pragma once

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/address.h"

namespace HOOKED_EXPORT hooked {

/// Attention from a cache as a Grid [head, query, key], with the tokens as labels.
///
///     attention_grid(model, run.cache, act::pattern(5)).save("layer5.svg");
///     attention_grid(model, run.cache, act::pattern(5).head(3)).save("head5.3.svg");
///
/// `attention` is a pattern, or the scores before the softmax; cross-attention's and an encoder's likewise.
/// With a head, the Grid is [query, key]; without one, a picture has a panel for each head. A cache of
/// several rows gives a Grid [row, head, query, key] with NaN for padding and without tokens, or with
/// `.row(1)` that row, without its padding. In pictures of causal attention the keys after each query stay
/// empty.
///
/// Throws HookError for another activation, for indices on other axes, for what the cache does not hold or
/// holds at some positions only, and after a prefix, whose attention is not in the cache.
Grid attention_grid(const HookedTransformer& model, const ActivationCache& cache, const Address& attention);

}  // namespace hooked
