// Qwen 3 with mixtures of experts (Yang et al. 2025): norms on queries and keys, ordinary MLPs in some
// layers.
#include "families/shared/expert_config.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen3_moe {
namespace {

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 4});
  c.qkv_bias = c.attn_out_bias = json.boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 128, .per_token_fallback = 8});
  read_qwen_experts(hf, c);
  json.ignore({"sliding_window", "max_window_layers"});
  if (json.boolean_or("use_sliding_window", false)) {
    hf.set_windows(c, {"sliding_window", 4096, /*null_is_none=*/true},
                   flag_layers(c, [](std::int64_t) { return true; }));
  }
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("qwen3_moe", read, usual_mixture_recipes);

}  // namespace hooked::families::qwen3_moe
