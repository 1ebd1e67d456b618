// StableLM 2 (Bellagente et al. 2024): LayerNorms, partial rotary, norms of queries and keys with weights per
// head.
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <tuple>

#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::stablelm {
namespace {

// One norm module for each head; ours is one weight [head, d_head].
void add_head_norms(Recipes& r, const ModelConfig& c) {
  for (const auto& [ours, theirs, heads] : {std::tuple{"attn.q_norm.w", "q_layernorm", c.n_heads},
                                            std::tuple{"attn.k_norm.w", "k_layernorm", c.n_kv_heads}}) {
    std::vector<std::string> names;
    for (std::int64_t h = 0; h < heads; ++h)
      names.push_back(fmt::format("self_attn.{}.norms.{}.weight", theirs, h));
    r.make(ours, names, [](const std::vector<at::Tensor>& weights) { return at::cat(weights); });
  }
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    if (c.qk_norm) add_head_norms(r, c);
    r.attention_out("self_attn.o_proj");
    if (!c.parallel()) r.norm("ln2", "post_attention_layernorm");
    add_llama_mlp(r, c);
  });
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096,
                                         .n_kv_heads = 32,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "layer_norm_eps",
                                         .eps = 1e-5});
  c.qkv_bias = json.boolean_or("use_qkv_bias", false);
  if (json.boolean_or("use_parallel_residual", false)) c.layout = BlockLayout::parallel_one_norm;
  if (json.boolean_or("qk_layernorm", false)) {
    c.qk_norm = QkNorm{.span = QkNorm::each_head, .kind = NormKind::layer_norm};
  }
  read_rope(hf, c, {.partial = 0.25});
  json.ignore({"rope_pct", "rotary_scaling_factor"});  // of the older models' own code
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("stablelm", read, recipes);

}  // namespace hooked::families::stablelm
