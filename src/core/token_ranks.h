#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>

#include <cstdint>
#include <limits>

namespace hooked {

/// For each chosen logit [..., token], how many of all logits [..., vocab] are larger: 0 for the likeliest
/// token. NaN where one of the logits is NaN: nothing is larger than NaN, so that any token would seem to be
/// the likeliest.
inline at::Tensor token_ranks(const at::Tensor& chosen, const at::Tensor& all) {
  auto ranks = at::zeros_like(chosen);
  for (std::int64_t token = 0; token < chosen.size(-1); ++token)
    ranks.select(-1, token).copy_(all.gt(chosen.narrow(-1, token, 1)).sum(-1));
  return ranks.masked_fill_(all.isnan().any(-1, /*keepdim=*/true), std::numeric_limits<double>::quiet_NaN());
}

}  // namespace hooked
