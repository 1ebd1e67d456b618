#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/sequence/run.h"

namespace hooked {

/// Which rows the experts of a mixture write, and for which tokens. A place is a token's rank among its
/// experts; its number is rank * tokens + token.
struct ExpertRows {
  std::int64_t tokens;
  std::int64_t ranks;
  std::int64_t d_model;
  at::Tensor places;                ///< [row] int64, expert by expert; without those of padding
  std::vector<at::Tensor> written;  ///< [rows of one expert, d_model], in that order
};

/// The sum for each token, [token, d_model]: its experts' outputs times weights [token, rank], in the order
/// of the ranks; zeros for padding. One pass in float32 and bfloat16 on the CPU.
at::Tensor weighted_sum(const ExpertRows& rows, const at::Tensor& weights, Memory memory);

}  // namespace hooked
