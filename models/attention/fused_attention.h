#pragma once

#include <ATen/core/Tensor.h>

#include "models/sequence/kv_cache.h"
#include "models/sequence/sequence.h"

namespace hooked {

/// Whether LibTorch's fused kernel is faster than attend_in_tiles, for queries q [batch, pos, head,
/// d_head].
bool fused_is_faster(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind);

/// Attention of q [batch, pos, head, d_head] to `attended` by LibTorch's fused kernel, with scores multiplied
/// by `scale`: [batch, pos, head, d_value]. Differentiable.
at::Tensor attend_fused(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind,
                        double scale);

/// Attention sinks as the fused kernel takes them: one more key of zeros with a value of zeros, whose score
/// in each head is the sink.
struct SinkColumn {
  const at::Tensor& sinks;  ///< [head]
  const at::Tensor& zero;   ///< [1] of the keys' dtype and device
};

/// Whether that is better for queries q: on devices other than the CPU, where it takes half as many launches,
/// as long as the masks of all heads, which differ by their sinks, take little memory.
bool fused_serves_sinks(const at::Tensor& q, const KeysAndValues& attended);

/// attend_fused with sinks. Not while gradients are recorded.
at::Tensor attend_fused(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind,
                        double scale, const SinkColumn& sink);

}  // namespace hooked
