#pragma once

#include <cstdint>
#include <vector>

#include "families/shared/llama_layout.h"

namespace hooked {

/// Defaults of the text models of Gemma 4.
struct Gemma4Defaults {
  std::int64_t n_ctx;
  std::int64_t window;
  /// Width of the per-layer embeddings, which layers read in addition to the stream; 0: the family has none.
  std::int64_t layer_input = 0;
  bool mixtures = false;  ///< whether the family has experts in addition to its MLPs
};

/// Gemma 4 (Google 2026): heads of another size in layers without a window; norms of queries, keys and
/// values; a number that multiplies the stream after each block; optionally KV sharing in the last layers,
/// per-layer embeddings, and experts in addition to the MLPs.
ModelConfig read_gemma4_config(HfConfig& hf, const Gemma4Defaults& defaults);
std::vector<TensorRecipe> gemma4_recipes(const ModelConfig& config, const HfConfig& hf);

}  // namespace hooked
