// AFM (Arcee 2025): Llama with a squared ReLU and no gate.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c =
      read_llama_config(hf, {.n_ctx = 4096, .eps = 1e-5, .mlp = MlpKind::plain, .activation = "relu2"});
  read_llama_biases(hf, c);
  read_rope(hf, c);
  return hf.finish(std::move(c), llama_recipes);
}

}  // namespace

extern const Family kArceeFamily = llama_family("arcee", read);

}  // namespace hooked
