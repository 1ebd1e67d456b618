// Mellum 2 (JetBrains 2026): Qwen 3 with mixtures of experts, and separate angles in windowed layers.
#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::mellum {
namespace {

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 4, .d_head = 128});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 64, .per_token_fallback = 8});
  c.experts->renormalised = json.boolean_or("norm_topk_prob", true);
  set_expert_width(hf, c, "moe_intermediate_size",
                   json.has("mlp_layer_types") ? dense_layers_by_name(hf, c) : LayerFlags());
  hf.set_windows(c, {"sliding_window", 1024}, hf.layers_of_type(c, [](std::int64_t) { return false; }));
  json.ignore({"sliding_window", "num_mtp_layers", "num_nextn_predict_layers", "mtp_layer_types",
               "mtp_mlp_layer_types"});
  if (!json.has("rope_parameters"))
    hf.require_unset({"rope_theta", "rope_scaling"});  // which it does not have
  read_layered_rope(hf, c, {.theta = 5e5, .windowed_theta = 1e4, .windowed_theta_key = "rope_theta"});
  return c;
}

}  // namespace

extern const Family kMellum = llama_family("mellum", read, usual_mixture_recipes);

}  // namespace hooked::families::mellum
