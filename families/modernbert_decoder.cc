// ModernBERT as a decoder (Weller et al. 2025, Ettin): causal, with separate queries, keys and values.
#include "families/shared/modernbert_layout.h"

namespace hooked::families::modernbert_decoder {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return modernbert_recipes(c, hf, "lm_head", [](Recipes& r) {
    r.queries("attn.q_proj");
    r.keys("attn.k_proj");
    r.values("attn.v_proj");
  });
}

ModelConfig read(HfConfig& hf) {
  // A window's number of keys includes the token's own key.
  ModelConfig c = read_modernbert_config(hf, [](std::int64_t reach) { return reach; });
  hf.json().ignore({"sliding_window"});  // transformers writes it, and computes it anew
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = "modernbert-decoder",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "model.",
                            .unembedding = "decoder.weight",
                            .optional_part = masked_lm_head_behind_norm("lm_head.")};

}  // namespace hooked::families::modernbert_decoder
