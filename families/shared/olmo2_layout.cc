#include "families/shared/olmo2_layout.h"

namespace hooked {

ModelConfig read_olmo2_config(HfConfig& hf, QkNorm::Span qk_norm, std::int64_t n_kv_heads) {
  ModelConfig c = read_llama_config(hf, {.n_kv_heads = n_kv_heads, .eps = 1e-5});
  c.norm_place = NormPlace::output;
  c.qk_norm = QkNorm{.span = qk_norm};
  return c;
}

std::vector<TensorRecipe> olmo2_recipes(const ModelConfig& config) {
  return llama_stack(config, [&](Recipes& r) {
    add_llama_attention(r, config);
    r.norm("ln1_post", "post_attention_layernorm");
    config.experts ? r.mixture({}) : add_llama_mlp(r, config);
    r.norm("ln2_post", "post_feedforward_layernorm");
  });
}

}  // namespace hooked
