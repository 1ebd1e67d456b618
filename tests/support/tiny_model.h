#pragma once

#include <string>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"
#include "hooked/weights/processing.h"
#include "tests/reference/random_weights.h"
#include "tests/support/tiny_config.h"

namespace hooked {

/// 3 layers, 4 heads, d_model 8, 11 tokens, 10 positions.
inline ModelConfig small_config() {
  return tiny_config({.d_model = 8, .n_ctx = 10, .d_head = 6, .d_mlp = 12, .d_vocab = 11});
}

/// 2 layers, 4 heads, d_model 16, 11 tokens, 12 positions.
inline ModelConfig two_layer_config() {
  return tiny_config({.n_layers = 2, .d_model = 16, .n_ctx = 12, .d_head = 6, .d_mlp = 20, .d_vocab = 11});
}

/// `decoder` after an encoder of 2 layers, with relative positions and grouped queries.
inline ModelConfig two_stack_config(ModelConfig decoder = small_config()) {
  decoder.encoder = Encoder{.n_layers = 2, .decoder_start_token = 1};
  decoder.norm = decoder.final_norm = NormKind::rms_norm;
  decoder.positions = RelativePositions{.buckets = 8, .max_distance = 10};
  decoder.attn_scale = 1.0;
  decoder.n_kv_heads = 2;
  return decoder;
}

/// Weights of `config` in its dtype; biases and norms' weights are random too.
inline StateDict random_weights(const ModelConfig& config, std::uint64_t seed = 7) {
  return reference::random_weights(config, seed, config.dtype);
}

/// A raw model of these weights in the dtype of `config`.
inline HookedTransformer model_of(StateDict weights, const ModelConfig& config,
                                  const std::string& device = "cpu") {
  return HookedTransformer::from_state_dict(
      std::move(weights), config,
      {.device = device, .dtype = config.dtype, .processing = WeightProcessing::none()});
}

/// A raw model of random weights.
inline HookedTransformer random_model(const ModelConfig& config = small_config()) {
  return model_of(random_weights(config), config);
}

/// The same with its weights processed.
inline HookedTransformer random_model(const ModelConfig& config, const WeightProcessing& processing) {
  return HookedTransformer::from_state_dict(random_weights(config), config,
                                            {.dtype = config.dtype, .processing = processing});
}

/// int64 [batch, pos] of valid ids for `config`, the same for the same seed.
inline at::Tensor random_tokens(const ModelConfig& config, at::IntArrayRef sizes, std::uint64_t seed = 3) {
  return at::randint(std::min(config.d_vocab, config.d_vocab_out()), sizes,
                     at::detail::createCPUGenerator(seed), at::kLong);
}

/// int64 [1, pos] of ids below `vocab`, the same for the same seed.
inline at::Tensor random_row(std::int64_t positions, std::int64_t vocab, std::uint64_t seed) {
  return at::randint(vocab, {1, positions}, at::detail::createCPUGenerator(seed), at::kLong);
}

}  // namespace hooked
