#pragma once

#include <hooked/hooked.h>

#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

/// The models that benchmarks run, with random weights: each is GPT-2-small changed by a function.
struct Shape {
  const char* name;
  void (*change)(hooked::ModelConfig& config);
};

namespace shapes {

inline void as_it_is(hooked::ModelConfig&) {}

/// Grouped queries, rotary, RMSNorm, gated: as benchmarks/rivals/models.py writes it.
inline void llama(hooked::ModelConfig& config) {
  config.n_ctx = 4096;
  config.n_kv_heads = 4;
  config.d_mlp = 2048;
  config.d_vocab = 32000;
  config.unembedding = hooked::Unembedding{.d_vocab = config.d_vocab, .tied = true, .bias = false};
  config.norm = config.final_norm = hooked::NormKind::rms_norm;
  config.norm_bias = config.mlp_bias = config.qkv_bias = config.attn_out_bias = false;
  config.mlp = hooked::MlpKind::gated;
  config.activation = hooked::Activation::silu;
  config.positions = hooked::RotaryPositions{};
}

/// Built from Llama's parts, with two of eight experts for a token.
inline void mixture(hooked::ModelConfig& config) {
  llama(config);
  config.d_mlp = 1024;
  config.experts =
      hooked::Experts{.n_experts = 8, .per_token = 2, .d_expert = config.d_mlp, .renormalised = true};
}

/// Built from Llama's parts; three of four layers see 256 tokens.
inline void windowed(hooked::ModelConfig& config) {
  llama(config);
  config.window = hooked::Window{.size = 256};
  for (int layer = 0; layer < config.n_layers; ++layer) config.window->layers.push_back(layer % 4 != 3);
}

/// Attention of DeepSeek-V2-Lite's widths in four layers, with small MLPs and a small vocabulary.
inline void latent(hooked::ModelConfig& config) {
  llama(config);
  config.n_layers = 4;
  config.d_model = 2048;
  config.n_ctx = 8192;
  config.n_heads = config.n_kv_heads = 16;
  config.d_head = 192;
  config.attn_scale = std::sqrt(192.0);
  config.latent = hooked::Latents{.d_kv = 512, .d_query = 0, .d_shared_key = 64, .d_value = 128};
  config.positions = hooked::RotaryPositions{.dim = 64, .adjacent_pairs = true, .at_end = true};
}

inline constexpr Shape kGpt2Small{"gpt2_small", as_it_is};
inline constexpr Shape kLlama{"llama", llama};
inline constexpr Shape kMixture{"mixture", mixture};
inline constexpr Shape kWindowed{"windowed", windowed};
inline constexpr Shape kLatent{"latent", latent};
inline constexpr std::array kAll{kGpt2Small, kLlama, kMixture, kWindowed};

}  // namespace shapes

inline hooked::ModelConfig config_of(const Shape& shape) {
  hooked::ModelConfig config;
  config.n_layers = 12;
  config.d_model = 768;
  config.n_ctx = 1024;
  config.n_heads = config.n_kv_heads = 12;
  config.d_head = 64;
  config.d_mlp = 3072;
  config.d_vocab = 50257;
  config.unembedding = hooked::Unembedding{.d_vocab = config.d_vocab};
  config.activation = hooked::Activation::gelu_tanh;
  config.attn_scale = 8.0;
  shape.change(config);
  return config;
}

/// The model of a shape, made once.
inline const hooked::HookedTransformer& model_of(const Shape& shape, at::ScalarType dtype = at::kFloat) {
  static std::map<std::tuple<std::string_view, at::ScalarType>, hooked::HookedTransformer> models;
  const std::tuple key{std::string_view(shape.name), dtype};
  const auto found = models.find(key);
  if (found != models.end()) return found->second;
  return models.emplace(key, hooked::HookedTransformer::create(config_of(shape), {.dtype = dtype}))
      .first->second;
}

/// A model of GPT-2-small's shape with random weights, made once.
inline const hooked::HookedTransformer& gpt2_small() { return model_of(shapes::kGpt2Small); }
