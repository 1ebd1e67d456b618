#pragma once

#include <ATen/core/Tensor.h>

#include "models/sequence/kv_cache.h"
#include "models/sequence/sequence.h"

namespace hooked {

/// Whether LibTorch's fused kernel is to be preferred to attend_in_tiles, for queries q
/// [batch, pos, head, d_head].
bool fused_is_faster(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind);

/// Attention of q [batch, pos, head, d_head] to `attended` by LibTorch's fused kernel, scores multiplied by
/// `scale`: [batch, pos, head, d_value]. Differentiable.
at::Tensor attend_fused(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind,
                        double scale);

/// What sinks are to the fused kernel: one more key of zeros with a value of zeros, to which each head gives
/// the sink for its score.
struct SinkColumn {
  const at::Tensor& sinks;  ///< [head]
  const at::Tensor& zero;   ///< [1] of the keys' dtype and device
};

/// Whether that is to be preferred for queries q: on other devices than the CPU, where it is half as many
/// launches, as long as the masks of all heads, which the sinks tell apart, take little memory.
bool fused_serves_sinks(const at::Tensor& q, const KeysAndValues& attended);

/// attend_fused with sinks. Not while gradients are recorded.
at::Tensor attend_fused(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind,
                        double scale, const SinkColumn& sink);

}  // namespace hooked
