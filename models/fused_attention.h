#pragma once

#include <ATen/core/Tensor.h>

#include "models/kv_cache.h"
#include "models/sequence.h"

namespace hooked {

/// Whether LibTorch's fused kernel is to be preferred to attend_in_tiles, for queries q
/// [batch, pos, head, d_head].
bool fused_is_faster(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind);

/// Attention of q [batch, pos, head, d_head] to `attended` by LibTorch's fused kernel, scores multiplied by
/// `scale`: [batch, pos, head, d_value]. Differentiable.
at::Tensor attend_fused(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind,
                        double scale);

}  // namespace hooked
