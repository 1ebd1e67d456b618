#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace hooked {

/// The mask of some tokens, and their name in errors.
struct MaskedInput {
  const at::Tensor& mask;  ///< [batch, pos] bool; undefined: all are real
  const char* where;
};

/// Throws ShapeError for `tokens` [batch, pos] whose positions would depend on whether the mask or
/// `padding_token` decides which tokens count. Does nothing without such a token.
void require_one_count(std::optional<std::int64_t> padding_token, const at::Tensor& tokens,
                       const MaskedInput& input);

}  // namespace hooked
