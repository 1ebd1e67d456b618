#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/weights/processing.h"
#include "tests/reference/random_weights.h"
#include "tests/support/relative_difference.h"

namespace hooked {

/// A config of 3 layers, 4 heads, d_model 8, 11 tokens, 10 positions, float64.
inline ModelConfig small_config() {
  ModelConfig config;
  config.n_layers = 3;
  config.d_model = 8;
  config.n_ctx = 10;
  config.n_heads = config.n_kv_heads = 4;
  config.d_head = 6;
  config.attn_scale = std::sqrt(6.0);
  config.d_mlp = 12;
  config.activation = Activation::gelu;
  config.d_vocab = 11;
  config.unembedding = Unembedding{.d_vocab = config.d_vocab};
  config.dtype = at::kDouble;
  return config;
}

/// An encoder of 2 layers and a decoder of 3 like small_config's, with relative positions and grouped
/// queries.
inline ModelConfig two_stack_config() {
  ModelConfig config = small_config();
  config.encoder = Encoder{.n_layers = 2};
  config.norm = config.final_norm = NormKind::rms_norm;
  config.positions = RelativePositions{.buckets = 8, .max_distance = 10};
  config.attn_scale = 1.0;
  config.encoder->decoder_start_token = 1;
  config.n_kv_heads = 2;
  return config;
}

/// Weights of `config` in its dtype; biases and norms' weights are random too.
inline StateDict random_weights(const ModelConfig& config, std::uint64_t seed = 7) {
  return reference::random_weights(config, seed, config.dtype);
}

/// A raw model with random weights.
inline HookedTransformer random_model(const ModelConfig& config = small_config(),
                                      const std::string& device = "cpu") {
  return HookedTransformer::from_state_dict(
      random_weights(config), config,
      {.device = device, .dtype = config.dtype, .processing = WeightProcessing::none()});
}

/// int64 [batch, pos] of valid ids for `config`, the same for the same seed.
inline at::Tensor random_tokens(const ModelConfig& config, at::IntArrayRef sizes, std::uint64_t seed = 3) {
  return at::randint(std::min(config.d_vocab, config.d_vocab_out()), sizes,
                     at::detail::createCPUGenerator(seed), at::TensorOptions(at::kLong));
}

}  // namespace hooked
