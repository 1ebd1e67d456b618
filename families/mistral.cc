// Mistral AI's models.
#include "families/shared/expert_config.h"
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::mistral {
namespace {

// Llama with a window on the layers that `layer_types` names, or on every layer if it is absent.
ModelConfig read_mistral_config(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8});
  hf.set_windows(c, {"sliding_window", 4096, /*null_is_none=*/!hf.json().has("layer_types")},
                 hf.layers_of_type(c, [](std::int64_t) { return true; }));
  read_rope(hf, c);
  return c;
}

// Ministral 3 (Mistral AI 2025): Mistral whose queries grow with their positions (attention temperature).
ModelConfig read_ministral3(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 262144, .n_kv_heads = 8, .d_head = 128, .eps = 1e-5});
  // It has one window for all layers, whatever `layer_types` says.
  hf.json().ignore({"layer_types"});
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true}, LayerFlags(c.n_layers, true));
  constexpr std::string_view kTokens = "original_max_position_embeddings";
  const ConfigReader rope = rope_group(hf.json(), R"({"llama_4_scaling_beta": 0.1,
                                                      "original_max_position_embeddings": 16384})");
  const ConfigReader& holder = hf.json().has(kTokens) ? hf.json() : rope;
  const QueryGrowth growth{.growth = rope.number("llama_4_scaling_beta"),
                           .tokens = holder.number_or(kTokens, static_cast<double>(c.n_ctx))};
  rope.ignore({"max_position_embeddings"});
  hf.comes_from("query_growth.growth", rope.where("llama_4_scaling_beta"));
  hf.comes_from("query_growth.tokens", holder.where(kTokens));
  read_rope(hf, c, {.group = R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "mscale": 1.0,
                          "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384})"});
  if (growth.growth != 0.0) c.query_growth = growth;
  return c;
}

// Mixtral (Jiang et al. 2024): Mistral with mixtures of experts whose chosen weights are renormalised.

std::vector<TensorRecipe> mixtral_recipes(const ModelConfig& c) {
  return mixture_recipes(c, [](Recipes& r) { r.mixture(mixtral_names()); });
}

ModelConfig read_mixtral(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .eps = 1e-5});
  read_experts(hf, c, {.n_experts_fallback = 8, .per_token_fallback = 2});
  c.experts->renormalised = true;
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true}, LayerFlags(c.n_layers, true));
  read_rope(hf, c, {.theta = 1e6});
  return c;
}

}  // namespace

// Ministral (Mistral AI 2024): Mistral with windows on some layers.
extern const Family kMinistral = llama_family("ministral", read_mistral_config, llama_recipes);

extern const Family kMinistral3 = llama_family("ministral3", read_ministral3, llama_recipes);

// Mistral (Jiang et al. 2023): Llama with a window on every layer.
extern const Family kMistral = llama_family("mistral", read_mistral_config, llama_recipes);

extern const Family kMixtral = llama_family("mixtral", read_mixtral, mixtral_recipes);

}  // namespace hooked::families::mistral
