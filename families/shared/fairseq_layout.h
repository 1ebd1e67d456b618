#pragma once

#include <functional>
#include <string_view>

#include "families/shared/recipes.h"

namespace hooked {

/// Reads a norm of a block: our name of it, theirs.
using AddNorm = std::function<void(std::string_view ours, std::string_view theirs)>;

/// The blocks that OPT, XGLM and BioGPT have from fairseq: `self_attn.{q,k,v,out}_proj`, `fc1`, `fc2` and two
/// norms, which `add_norm` reads where they are not plain ones.
void add_fairseq_blocks(Recipes& recipes, const AddNorm& add_norm = nullptr);

/// Rows before the first position of their tables.

inline constexpr std::int64_t kFairseqPositionOffset = 2;

}  // namespace hooked
