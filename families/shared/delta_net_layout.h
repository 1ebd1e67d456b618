#pragma once

#include <functional>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// Qwen's `layer_types` or `full_attention_interval`, and the keys `linear_*` about gated delta nets in the
/// other layers. Heads of attention are gated, queries and keys normed.
void read_qwen_delta_nets(HfConfig& hf, ModelConfig& config);

/// Defaults of a config for its gated delta nets.
struct DeltaNetDefaults {
  std::int64_t n_key_heads = 16;
  std::int64_t n_heads = 32;
  std::int64_t d_key = 128;
  std::int64_t d_value = 128;
};

/// The layers whose `layer_types` is `linear_attention` and not `full_attention`; the usual layers if the key
/// is absent.
LayerFlags linear_layers(HfConfig& hf, const ModelConfig& config, const std::function<LayerFlags()>& usual);

/// Reads the keys `linear_*` of gated delta nets in those layers; there must be at least one such layer.
DeltaNet read_delta_nets(HfConfig& hf, const ModelConfig& config, LayerFlags layers,
                         const DeltaNetDefaults& defaults = {});

/// How a file stores the projections that a delta net reads with: by key head in two tensors (Qwen 3-Next),
/// in stacked parts in four (Qwen 3.5), or each in a tensor of its own, filters too (OLMo Hybrid).
enum class DeltaNetFiles : std::uint8_t { by_key_head, in_parts, apart };

/// `linear_attn` of a block that has it.
void add_delta_net(Recipes& recipes, const ModelConfig& config, DeltaNetFiles files);

/// `linear_attn` of a block, or `self_attn` with gates among its queries.
void add_qwen_mixer(Recipes& recipes, const ModelConfig& config, DeltaNetFiles files);

/// Other tensors in files, without effect on the model: `mtp.*` predicts several tokens at once.
inline constexpr std::string_view kDeltaNetBuffers[] = {"*rotary_emb.inv_freq", "mtp.*"};

/// The row of a Qwen family with such layers.
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
