#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/sequence/kv_cache.h"
#include "models/sequence/sequence.h"

namespace hooked {

/// A causal convolution over tokens, separately in each dimension: y[t] = sum over taps i of filter[i] x[t -
/// (taps - 1) + i], plus the bias. Tokens that do not exist count as zeros; padding does not count as a
/// token.
///
/// `columns` are all columns up to and including the run's own, [row or 1, 1, pos, d] each, from left to
/// right. The last `length` columns of the last tensor are the run's own, unless `earlier` says where tokens
/// are. `filter` [tap, d], `bias` [d] or undefined. Sums are in float32 or better. Returns [row, length, d].
at::Tensor causal_convolution(const std::vector<KeysAndValues>& columns, std::int64_t length,
                              const EarlierTokens& earlier, const at::Tensor& filter, const at::Tensor& bias);

}  // namespace hooked
