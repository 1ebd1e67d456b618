#include "families/shared/gptj_layout.h"

#include "families/shared/gpt2_layout.h"

namespace hooked {

void add_gptj_parts(Recipes& r, const std::function<void()>& add_qkv) {
  r.embedding("wte.weight");
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", "ln_1");
    add_qkv();
    r.attention_out("attn.out_proj");
    r.mlp_in("mlp.fc_in");
    r.mlp_out("mlp.fc_out");
  });
  r.norm("ln_final", "ln_f");
  r.unembedding("lm_head");
}

ModelConfig read_gptj_config(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes(gpt2_size_keys(json, 2048), /*tied=*/false);
  json.ignore({"n_ctx"});
  c.layout = BlockLayout::parallel_one_norm;
  c.mlp_bias = c.unembedding->bias = true;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = hf.activation("activation_function", "gelu_new");
  const std::int64_t turned = json.has("rotary_dim") ? hf.count("rotary_dim") : 64;
  if (turned > c.d_head || turned % 2 != 0) {
    json.refuse("rotary_dim", "does not fit a head; expected an even number of its dimensions");
  }
  c.positions = RotaryPositions{.dim = turned == c.d_head ? 0 : turned, .adjacent_pairs = true};
  json.ignore({"scale_attn_weights", "rotary"});  // published configs state what is always so
  return c;
}

}  // namespace hooked
