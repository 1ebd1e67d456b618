#pragma once

#include <functional>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

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

}  // namespace hooked
