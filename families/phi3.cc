// Phi 3 and 4 (Abdin et al. 2024): fused projections, longrope.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::phi3 {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    r.fused_qkv("self_attn.qkv_proj", FusedHeads::side_by_side(c));
    r.attention_out("self_attn.o_proj");
    r.norm("ln2", "post_attention_layernorm");
    r.fused_gate_up("mlp.gate_up_proj");
    r.mlp_out("mlp.down_proj");
  });
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096, .eps = 1e-5});
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true},
                 flag_layers(c, [](std::int64_t) { return true; }));
  hf.json().ignore(
      {"full_attn_mod", "interpolate_factor"});  // of Phi 4's own code; transformers reads neither
  read_rope(hf, c, {.partial = 1.0, .original_n_ctx = 4096.0, .calls_longrope_yarn = true});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("phi3", read, recipes);

}  // namespace hooked::families::phi3
