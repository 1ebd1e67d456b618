#pragma once

#include <vector>

#include "families/shared/llama_layout.h"

namespace hooked {

/// OLMo 2 and its successors: norms of the sublayers' outputs instead of their inputs, and norms of queries
/// and keys.
ModelConfig read_olmo2_config(HfConfig& hf, QkNorm::Span qk_norm, std::int64_t n_kv_heads = 0);

std::vector<TensorRecipe> olmo2_recipes(const ModelConfig& config);

}  // namespace hooked
