#pragma once

#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// A model of one layer with two heads, for files that belong to a model.
inline const HookedTransformer& small_model() {
  static const HookedTransformer model = [] {
    ModelConfig config;
    config.n_layers = 1;
    config.d_model = 4;
    config.n_ctx = 4;
    config.n_heads = config.n_kv_heads = 2;
    config.d_head = 2;
    config.attn_scale = 1.5;
    config.d_mlp = 6;
    config.activation = Activation::gelu;
    config.d_vocab = 5;
    config.unembedding = Unembedding{.d_vocab = 5};
    return HookedTransformer::create(config, {.seed = 7});
  }();
  return model;
}

}  // namespace hooked
