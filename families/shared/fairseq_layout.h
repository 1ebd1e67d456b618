#pragma once

#include "families/shared/recipes.h"

namespace hooked {

/// Number of rows before the first position in their tables.
inline constexpr std::int64_t kFairseqPositionOffset = 2;

/// [n_ctx, d_model]: the rows from `first` on of a table of sines, then cosines, of frequencies from 1 down
/// to 1/10000. The row of the padding token in the whole table is zero. In float32 except for float64 models,
/// as transformers computes it. For models with a d_model of at least 4.
at::Tensor fairseq_sinusoids(const ModelConfig& config, std::int64_t first, std::int64_t padding_row = -1);

}  // namespace hooked
