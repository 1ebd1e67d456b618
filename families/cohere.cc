// Command R (Cohere 2024).
#include "families/shared/cohere_layout.h"

namespace hooked::families::cohere {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_cohere_config(hf, 5e5);
  if (hf.json().boolean_or("use_qk_norm", false)) {
    c.qk_norm = QkNorm{.span = QkNorm::each_head, .kind = NormKind::layer_norm};
  }
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("cohere", read, llama_recipes);

}  // namespace hooked::families::cohere
