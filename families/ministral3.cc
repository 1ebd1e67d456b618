// Ministral 3 (Mistral AI 2025): Mistral whose queries grow with their positions.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::ministral3 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 262144, .n_kv_heads = 8, .d_head = 128, .eps = 1e-5});
  // It has one window for all layers, whatever `layer_types` says.
  hf.json().ignore({"layer_types"});
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true}, LayerFlags(c.n_layers, true));
  const auto rope = hf.json().object_if("rope_parameters");
  QueryGrowth growth{.growth = 0.1, .tokens = 16384.0};
  if (rope) {
    growth = {.growth = rope->number("llama_4_scaling_beta"),
              .tokens = rope->number_or("original_max_position_embeddings", static_cast<double>(c.n_ctx))};
    rope->ignore({"max_position_embeddings"});
    hf.comes_from("query_growth.growth", rope->where("llama_4_scaling_beta"));
    hf.comes_from("query_growth.tokens", rope->where("original_max_position_embeddings"));
  }
  read_rope(hf, c, {.theta = rope ? 1e4 : 1e6});
  if (!rope) c.rotary()->scaling = YarnScaling{.factor = 16.0, .original_n_ctx = 16384.0};
  if (growth.growth != 0.0) c.query_growth = growth;
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("ministral3", read, llama_recipes);

}  // namespace hooked::families::ministral3
