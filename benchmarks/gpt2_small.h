#pragma once

#include <hooked/hooked.h>

/// A model of GPT-2-small's shape with random weights, made once.
inline const hooked::HookedTransformer& gpt2_small() {
  static const auto kModel = [] {
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
    return hooked::HookedTransformer::create(config);
  }();
  return kModel;
}
