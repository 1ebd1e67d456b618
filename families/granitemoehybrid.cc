// Granite 4 (Granite Team 2025) if every layer is attention: with or without experts in addition to its MLP,
// with rotary or without positions.
#include "families/shared/granite_layout.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::granitemoehybrid {
namespace {

// A file that does not say it has only state-space layers.
void require_attention(const HfConfig& hf, const ModelConfig& config) {
  const ConfigReader& json = hf.json();
  const std::string_view key = json.first_of({"layer_types", "layers_block_type"});
  const std::vector<std::string> types = json.has(key) ? json.texts(key) : std::vector<std::string>{"mamba"};
  for (const std::string& type : types) {
    if (type != "attention" && type != "full_attention") {
      json.refuse(key,
                  "has state-space layers (Mamba 2) or others that are not supported; expected attention for "
                  "every layer");
    }
  }
  if (static_cast<std::int64_t>(types.size()) != config.n_layers) {
    json.refuse(key, "does not name the kind of every layer; expected an entry for each");
  }
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  constexpr std::string_view kShared = "shared_intermediate_size";
  constexpr std::string_view kPositions = "position_embedding_type";
  ModelConfig c = read_granite_mixture_config(
      hf, {.d_shared = json.has(kShared) ? hf.count(kShared) : 1024, .may_have_no_experts = true});
  require_attention(hf, c);
  const std::string positions = json.text_or(kPositions, "nope");
  if (positions == "rope") {
    read_rope(hf, c);
    return c;
  }
  if (positions != "nope") {
    json.refuse(kPositions, "is not a kind of positions of this family; expected rope, nope or null");
  }
  c.positions = NoPositions{};
  json.ignore({"rope_theta", "rope_scaling", "rope_parameters"});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("granitemoehybrid", read, granite_mixture_recipes);

}  // namespace hooked::families::granitemoehybrid
