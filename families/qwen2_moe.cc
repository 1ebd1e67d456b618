// Qwen 1.5 and 2 with mixtures of experts (Yang et al. 2024): a shared expert with a sigmoid gate, ordinary
// MLPs in some layers.
#include "families/shared/expert_config.h"
#include "families/shared/qwen_windows.h"
#include "families/shared/rope_config.h"

namespace hooked::families::qwen2_moe {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return mixture_recipes(c, [](Recipes& r) {
    r.mixture({});
    r.shared_expert("mlp.shared_expert");
    r.copy("mlp.shared_expert_gate.weight", "mlp.shared_expert_gate.weight");
  });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 16});
  c.qkv_bias = json.boolean_or("qkv_bias", true);
  c.default_prepend_bos = false;
  read_experts(hf, c, {.n_experts_fallback = 60, .per_token_fallback = 4});
  c.experts->d_shared = hf.count("shared_expert_intermediate_size");
  c.experts->shared_gate = true;
  read_qwen_experts(hf, c);
  // Every other layer of the first models, unlike Qwen 2 without experts.
  const bool windows = json.boolean_or("use_sliding_window", false);
  const std::int64_t end = json.integer_or("max_window_layers", 28);
  const LayerFlags windowed =
      hf.windowed_layers(c, [&](std::int64_t l) { return windows && l % 2 == 0 && l < end; });
  json.ignore({"sliding_window"});
  if (windows) {
    hf.set_windows(c, {"sliding_window", 4096}, windowed);
  } else {
    refuse_windows_without_use(hf, windowed);
  }
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("qwen2_moe", read, recipes);

}  // namespace hooked::families::qwen2_moe
