#pragma once

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// Qwen's `layer_types` or `full_attention_interval`, and what the keys `linear_*` say of gated delta nets in
/// the other layers. Heads of attention are gated, queries and keys normed.
void read_qwen_delta_nets(HfConfig& hf, ModelConfig& config);

/// Whether a file holds what a delta net reads with by key heads, in two tensors (Qwen 3-Next), or one part
/// after another, in four (Qwen 3.5).
enum class DeltaNetFiles : std::uint8_t { by_key_head, in_parts };

/// `linear_attn` of a block, or `self_attn` with gates among its queries.
void add_qwen_mixer(Recipes& recipes, const ModelConfig& config, DeltaNetFiles files);

/// What files hold beside the model's tensors without effect on it: `mtp.*` predicts several tokens at once.
inline constexpr std::string_view kDeltaNetBuffers[] = {"*rotary_emb.inv_freq", "mtp.*"};

/// The row of a family of Qwen's with such layers.
constexpr Family delta_net_family(std::string_view model_type, ModelConfig (*read)(HfConfig& config),
                                  FamilyRecipes recipes) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = "model.",
          .unembedding = "lm_head.weight",
          .buffers = kDeltaNetBuffers};
}

}  // namespace hooked
