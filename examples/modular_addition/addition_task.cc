#include "addition_task.h"

#include <ATen/ATen.h>

namespace addition {
namespace {

/// Mixes the bits of a number, so that neighbours have nothing in common.
std::uint32_t mixed(std::uint32_t bits) {
  bits = (bits ^ (bits >> 16U)) * 0x85ebca6bU;
  bits = (bits ^ (bits >> 13U)) * 0xc2b2ae35U;
  return bits ^ (bits >> 16U);
}

}  // namespace

Pairs all_pairs(std::int64_t p) {
  const auto numbers = at::arange(p);
  const auto a = numbers.repeat_interleave(p), b = numbers.repeat({p});
  return {.tokens = at::stack({a, b, at::full_like(a, p)}, 1), .sums = (a + b).remainder(p)};
}

at::Tensor seen_in_training(std::int64_t p) {
  auto seen = at::empty({p * p}, at::kBool);
  for (std::int64_t pair = 0; pair < p * p; ++pair)
    seen[pair] = mixed(static_cast<std::uint32_t>(pair) + 1) < 0.4 * 4294967296.0;
  return seen;
}

Pairs chosen(const Pairs& pairs, const at::Tensor& which) {
  return {.tokens = pairs.tokens.index({which}), .sums = pairs.sums.index({which})};
}

at::Tensor sum_logits(const hooked::HookedTransformer& model, const Pairs& pairs) {
  return model.run(pairs.tokens).logits().select(1, -1);
}

double accuracy(const at::Tensor& logits, const at::Tensor& sums) {
  return logits.argmax(-1).eq(sums).to(at::kDouble).mean().item<double>();
}

}  // namespace addition
