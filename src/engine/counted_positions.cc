#include "engine/counted_positions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include "core/id_list.h"
#include "hooked/core/error.h"

namespace hooked {

// Note [Positions by a padding token]
// Positions count the tokens that the mask calls real. In some families transformers instead counts the
// tokens that are not the padding token, whatever the mask says, and gives a padding token a row of its own.
// Both agree as long as padding tokens are masked, and no other masked token is before a real token.
void require_one_count(std::optional<std::int64_t> padding_token, const at::Tensor& tokens,
                       const MaskedInput& input) {
  if (!padding_token || !tokens.defined()) return;
  const at::Tensor padding = (tokens == *padding_token).to(at::kCPU);
  const at::Tensor real = input.mask.defined() ? input.mask.to(at::kCPU) : at::ones_like(padding, at::kBool);
  const auto first_of = [&](const at::Tensor& wrong) { return id_list(at::nonzero(wrong)[0]); };
  if (const at::Tensor wrong = padding.logical_and(real); wrong.any().item<bool>()) {
    const auto place = first_of(wrong);
    throw ShapeError(
        input.where,
        fmt::format("row {} has the padding token {} at position {}, where the mask says that it is "
                    "real: this model has no position for it; expected the mask to be 0 there",
                    place[0], *padding_token, place[1]));
  }
  const at::Tensor real_later = at::cumsum(real.to(at::kLong).flip(1), 1).flip(1) > 0;
  const at::Tensor hidden = padding.logical_not().logical_and(real.logical_not()).logical_and(real_later);
  if (!hidden.any().item<bool>()) return;
  const auto place = first_of(hidden);
  throw ShapeError(
      input.where,
      fmt::format("row {} has a token that the mask hides at position {}, before real ones: this "
                  "model counts it all the same, so that their positions would be others than here; "
                  "expected the padding token {} there",
                  place[0], place[1], *padding_token));
}

}  // namespace hooked
