// The text model of Qwen 3.5 with mixtures of experts (Qwen Team 2026): that of Qwen 3.5 with a mixture and a
// shared expert with a sigmoid gate in every layer.
#include "families/shared/delta_net_layout.h"
#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen3_5_moe_text {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = hf.sizes({.n_kv_heads_fallback = 2,
                            .d_head_fallback = 256,
                            .d_mlp = "moe_intermediate_size",
                            .n_ctx_fallback = 32768},
                           /*tied=*/false);
  c.norm = c.final_norm = NormKind::rms_norm;
  c.eps = hf.positive_or("rms_norm_eps", 1e-6);
  c.mlp = MlpKind::gated;
  c.activation = hf.activation("hidden_act", "silu");
  read_qwen_delta_nets(hf, c);
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 256, .per_token_fallback = 8});
  c.experts->d_shared = hf.count("shared_expert_intermediate_size");
  c.experts->shared_gate = c.experts->renormalised = true;
  read_rope(hf, c, {.partial = 0.25, .sections = true});
  return c;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_qwen_mixer(r, c, DeltaNetFiles::in_parts);
    r.norm("ln2", "post_attention_layernorm");
    r.mixture({});
    r.shared_expert("mlp.shared_expert");
    r.copy("mlp.shared_expert_gate.weight", "mlp.shared_expert_gate.weight");
  });
}

}  // namespace

extern const Family kFamily = delta_net_family("qwen3_5_moe_text", read, recipes);

}  // namespace hooked::families::qwen3_5_moe_text
