// CodeGen (Nijkamp et al. 2022): GPT-J with one projection for queries, values and keys, made for four
// devices.
#include "families/shared/gptj_layout.h"

namespace hooked::families::codegen {
namespace {

// Each of four quarters has the queries, values and keys of a quarter of the heads.
FusedHeads quarters(const ModelConfig& c) {
  const std::int64_t local = c.n_heads / 4;
  FusedHeads heads;
  for (std::int64_t h = 0; h < c.n_heads; ++h) {
    const std::int64_t first = h / local * 3 * local + h % local;
    heads.q.push_back(first);
    heads.v.push_back(first + local);
    heads.k.push_back(first + 2 * local);
  }
  return heads;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_gptj_parts(r, [&] { r.fused_qkv("attn.qkv_proj", quarters(c)); });
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_gptj_config(hf);
  if (c.n_heads % 4 != 0) hf.json().refuse("n_head", "does not fit this layout; expected a multiple of 4");
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = "codegen",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight",
                            .buffers = kGptjBuffers};

}  // namespace hooked::families::codegen
