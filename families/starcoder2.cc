// StarCoder 2 (Lozhkov et al. 2024): LayerNorms with bias, rotary positions, no gate.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::starcoder2 {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    r.norm("ln2", "post_attention_layernorm");
    r.mlp_in("mlp.c_fc");
    r.mlp_out("mlp.c_proj");
  });
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096,
                                         .n_kv_heads = 2,
                                         .tied = true,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "norm_epsilon",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "gelu_pytorch_tanh"});
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = hf.json().boolean_or("use_bias", true);
  hf.json().ignore({"norm_type", "mlp_type"});
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true},
                 flag_layers(c, [](std::int64_t) { return true; }));
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("starcoder2", read, recipes);

}  // namespace hooked::families::starcoder2
