#pragma once

#include "families/shared/recipes.h"

namespace hooked {

/// What OPT, XGLM and BioGPT have from fairseq: `self_attn.{q,k,v,out}_proj`, `fc1` and `fc2`, and two rows
/// before the first position of their tables.
void add_fairseq_attention(Recipes& recipes);
void add_fairseq_mlp(Recipes& recipes);

inline constexpr std::int64_t kFairseqPositionOffset = 2;

}  // namespace hooked
