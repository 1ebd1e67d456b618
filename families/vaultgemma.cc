// VaultGemma (Google 2025): Gemma 2 without norms after its sublayers, trained with differential privacy.
#include "families/shared/gemma_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::vaultgemma {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    r.norm("ln2", "pre_feedforward_layernorm");
    add_llama_mlp(r, c);
  });
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c =
      read_gemma_config(hf, {.n_ctx = 8192, .n_kv_heads = 4, .activation_key = "hidden_activation"});
  read_gemma_caps(hf, c, {.scores = 50.0, .logits = 30.0});
  c.norm_place = NormPlace::pre;
  hf.set_windows(c, {"sliding_window", 4096},
                 hf.windowed_layers(c, [](std::int64_t l) { return l % 2 == 0; }));
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("vaultgemma", read, recipes);

}  // namespace hooked::families::vaultgemma
