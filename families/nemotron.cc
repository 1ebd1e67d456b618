// Nemotron 4 and Minitron (Parmar et al. 2024): LayerNorm weights stored as offsets from one, squared ReLU,
// no gate.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::nemotron {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "norm_eps",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "relu2"});
  c.norm_offset = true;
  read_llama_biases(hf, c);
  read_rope(hf, c, {.partial = 0.5});
  hf.json().ignore({"rope_percent", "rope_percentage"});
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("nemotron", read, llama_recipes);

}  // namespace hooked::families::nemotron
