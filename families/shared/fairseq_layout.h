#pragma once

#include <functional>
#include <string_view>

#include "families/shared/recipes.h"

namespace hooked {

/// Reads a norm of a block: our name for it, theirs.
using AddNorm = std::function<void(std::string_view ours, std::string_view theirs)>;

/// The blocks that OPT, XGLM and BioGPT have from fairseq: `self_attn.{q,k,v,out}_proj`, `fc1`, `fc2` and two
/// norms, which `add_norm` reads if they are not plain ones.
void add_fairseq_blocks(Recipes& recipes, const AddNorm& add_norm = nullptr);

/// Number of rows before the first position in their tables.
inline constexpr std::int64_t kFairseqPositionOffset = 2;

/// [n_ctx, d_model]: the rows from `first` on of a table of sines, then cosines, of frequencies from 1 down
/// to 1/10000. The row of the padding token in the whole table is zero. In float32 except for float64 models,
/// as transformers computes it. For models with a d_model of at least 4.
at::Tensor fairseq_sinusoids(const ModelConfig& config, std::int64_t first, std::int64_t padding_row = -1);

}  // namespace hooked
