// ModernBERT (Warner et al. 2024): an encoder with rotary positions, windows in two layers of three, gated
// MLPs and no norm before the first attention.
#include "families/shared/modernbert_layout.h"

namespace hooked::families::modernbert {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return modernbert_recipes(c, hf, "head",
                            [&](Recipes& r) { r.fused_qkv("attn.Wqkv", FusedHeads::side_by_side(c)); });
}

ModelConfig read(HfConfig& hf) {
  // The same number of keys on either side, and the token's own.
  ModelConfig c = read_modernbert_config(hf, [](std::int64_t reach) { return reach + 1; });
  c.direction = AttentionDirection::bidirectional;
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = "modernbert",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "model.",
                            .unembedding = "decoder.weight",
                            .optional_part = masked_lm_head_behind_norm("head.")};

}  // namespace hooked::families::modernbert
