#pragma once

#include <ostream>

#include "hooked/core/model_config.h"
#include "tests/support/random_config.h"
#include "tests/support/test.h"

namespace hooked {

/// The sizes of a tiny model. By default every axis has another size.
struct TinySizes {
  std::int64_t n_layers = 3;
  std::int64_t d_model = 6;
  std::int64_t n_ctx = 8;
  std::int64_t n_heads = 4;
  std::int64_t d_head = 7;
  std::int64_t d_mlp = 5;
  std::int64_t d_vocab = 9;
};

/// A config in float64, whose parts tests change as they need: LayerNorms before the sublayers, learned
/// positions, GELU, and biases everywhere.
inline ModelConfig tiny_config(const TinySizes& sizes = {}) {
  ModelConfig config;
  config.n_layers = sizes.n_layers;
  config.d_model = sizes.d_model;
  config.n_ctx = sizes.n_ctx;
  config.n_heads = config.n_kv_heads = sizes.n_heads;
  config.d_head = sizes.d_head;
  config.attn_scale = std::sqrt(static_cast<double>(sizes.d_head));
  config.d_mlp = sizes.d_mlp;
  config.activation = Activation::gelu;
  config.d_vocab = sizes.d_vocab;
  config.unembedding = Unembedding{.d_vocab = sizes.d_vocab};
  config.dtype = at::kDouble;
  return config;
}

/// `random_config` in float64.
inline ModelConfig random_double_config(std::uint64_t seed) {
  ModelConfig config = random_config(seed);
  config.dtype = at::kDouble;
  return config;
}

/// Calls `check` with each of the first `count` random configs, in float64, that `wanted` takes. Returns how
/// many these are.
inline int for_random_configs(std::uint64_t count, const std::function<bool(const ModelConfig&)>& wanted,
                              const std::function<void(const ModelConfig&)>& check) {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const ModelConfig config = random_double_config(seed);
    if (!wanted(config)) continue;
    SCOPED_TRACE(seed);
    check(config);
    ++tried;
  }
  return tried;
}
inline void for_random_configs(std::uint64_t count, const std::function<void(const ModelConfig&)>& check) {
  for_random_configs(
      count, [](const ModelConfig&) { return true; }, check);
}

/// A config by what it changes of another, for tests of several kinds.
struct ConfigKind {
  const char* name;
  ModelConfig (*base)();
  void (*change)(ModelConfig& config);

  ModelConfig config() const {
    ModelConfig config = base();
    change(config);
    return config;
  }
};

inline void PrintTo(const ConfigKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace hooked
