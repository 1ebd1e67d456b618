// Qwen 3-Next (Qwen Team 2025): gated delta nets in three of four layers, attention with gated heads in the
// others, mixtures of many experts and a shared one with a sigmoid gate.
#include "families/shared/delta_net_layout.h"
#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen3_next {
namespace {

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 2, .d_head = 256});
  read_qwen_delta_nets(hf, c);
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 512, .per_token_fallback = 10});
  c.experts->d_shared = hf.count("shared_expert_intermediate_size");
  c.experts->shared_gate = true;
  read_qwen_experts(hf, c);
  if (c.experts) c.experts->renormalised = json.boolean_or("norm_topk_prob", true);
  read_rope(hf, c, {.partial = 0.25});
  return c;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_qwen_mixer(r, c, DeltaNetFiles::by_key_head);
    r.norm("ln2", "post_attention_layernorm");
    if (!c.mixture(r.layer())) return add_llama_mlp(r, c);
    r.mixture({});
    r.shared_expert("mlp.shared_expert");
    r.copy("mlp.shared_expert_gate.weight", "mlp.shared_expert_gate.weight");
  });
}

}  // namespace

extern const Family kFamily = delta_net_family("qwen3_next", read, recipes);

}  // namespace hooked::families::qwen3_next
