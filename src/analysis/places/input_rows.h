#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cstdint>
#include <utility>

#include "hooked/core/model_config.h"
#include "hooked/engine/input.h"

namespace hooked {

/// An input that starts before block `layer`, to compute what its attention or its router does with `streams`
/// [row, pos, d_model]. Whatever else a block reads of tokens comes later, so any tokens will do.
inline Input at_layer(const ModelConfig& config, std::int64_t layer, const at::Tensor& streams,
                      InputDetails details = {}) {
  Input input = Input::start_at_layer(layer, streams, std::move(details));
  if (config.layer_input) {
    input.start->tokens = at::zeros({streams.size(0), streams.size(1)}, streams.options().dtype(at::kLong));
  }
  return input;
}

/// All tensors of an input that have a row for each sequence, [row, pos]; some may be undefined.
inline std::array<at::Tensor*, 5> tensors_of_rows(Input& input) {
  return {&input.tokens, &input.attention_mask, &input.token_types, &input.decoder.tokens,
          &input.decoder.attention_mask};
}

}  // namespace hooked
