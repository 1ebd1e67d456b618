#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "hooked/engine/input.h"

namespace hooked {

/// Everything of an input that has a row for each sequence, [row, pos]; some may be undefined.
inline std::array<at::Tensor*, 5> tensors_of_rows(Input& input) {
  return {&input.tokens, &input.attention_mask, &input.token_types, &input.decoder.tokens,
          &input.decoder.attention_mask};
}

}  // namespace hooked
