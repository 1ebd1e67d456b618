#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>

#include <cmath>
#include <cstdint>

#include "hooked/engine/hooked_transformer.h"
#include "tests/reference/random_weights.h"

namespace hooked {

/// A config of 2 layers, 4 heads, d_model 16, 11 tokens, 12 positions, float64.
inline ModelConfig two_layer_config() {
  ModelConfig config;
  config.n_layers = 2;
  config.d_model = 16;
  config.n_ctx = 12;
  config.n_heads = config.n_kv_heads = 4;
  config.d_head = 6;
  config.attn_scale = std::sqrt(6.0);
  config.d_mlp = 20;
  config.activation = Activation::gelu;
  config.d_vocab = 11;
  config.unembedding = Unembedding{.d_vocab = config.d_vocab};
  config.dtype = at::kDouble;
  return config;
}

/// A model of `config` in float64 whose every weight, biases and norm weights included, is random.
inline HookedTransformer random_model_of(ModelConfig config,
                                         const WeightProcessing& processing = WeightProcessing::none()) {
  config.dtype = at::kDouble;
  return HookedTransformer::from_state_dict(reference::random_weights(config, 7), config,
                                            {.dtype = at::kDouble, .processing = processing});
}

/// int64 [1, pos] of ids below `vocab`, the same for the same seed.
inline at::Tensor random_row(std::int64_t positions, std::int64_t vocab, std::uint64_t seed) {
  return at::randint(vocab, {1, positions}, at::detail::createCPUGenerator(seed),
                     at::TensorOptions(at::kLong));
}

}  // namespace hooked
