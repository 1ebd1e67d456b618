#pragma once

#include <cstdint>
#include <vector>

#include "families/shared/llama_layout.h"

namespace hooked {

/// What the text models of Gemma 4 mean by what their configs do not say.
struct Gemma4Defaults {
  std::int64_t n_ctx;
  std::int64_t window;
  /// Width of what each layer reads of tokens besides the stream; 0: the family has none.
  std::int64_t layer_input = 0;
  bool mixtures = false;  ///< whether the family has experts beside its MLPs
};

/// Gemma 4 (Google 2026): heads of another size in layers without a window, norms of queries, keys and
/// values, a number that multiplies the stream behind each block; perhaps layers at the end that share the
/// keys and values of others, tables of token rows for single layers, experts beside the MLPs.
ModelConfig read_gemma4_config(HfConfig& hf, const Gemma4Defaults& defaults);
std::vector<TensorRecipe> gemma4_recipes(const ModelConfig& config, const HfConfig& hf);

}  // namespace hooked
