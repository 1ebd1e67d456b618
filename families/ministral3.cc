// Ministral 3 (Mistral AI 2025): Mistral whose queries grow with their positions (attention temperature).
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::ministral3 {
namespace {

ModelConfig read(HfConfig& hf) {
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

}  // namespace

extern const Family kFamily = llama_family("ministral3", read, llama_recipes);

}  // namespace hooked::families::ministral3
