#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "hooked/core/model_config.h"
#include "hooked/engine/input.h"

namespace hooked {

/// A run of `config`'s model from the stream before block `layer` on; `tokens` [batch, pos] are those of its
/// columns, for models whose blocks read them.
inline Input start_at_layer(const ModelConfig& config, std::int64_t layer, at::Tensor stream,
                            const at::Tensor& tokens, InputDetails details = {}) {
  Input input = Input::start_at_layer(layer, std::move(stream), std::move(details));
  if (config.layer_input && layer < config.n_layers) input.start->tokens = tokens;
  return input;
}

}  // namespace hooked
