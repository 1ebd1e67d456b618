// AFM (Arcee 2025): Llama with a squared ReLU and no gate.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::arcee {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c =
      read_llama_config(hf, {.n_ctx = 4096, .eps = 1e-5, .mlp = MlpKind::plain, .activation = "relu2"});
  read_llama_biases(hf, c);
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("arcee", read, llama_recipes);

}  // namespace hooked::families::arcee
