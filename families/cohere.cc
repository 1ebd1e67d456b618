// Command R (Cohere 2024).
#include "families/shared/cohere_layout.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_cohere_config(hf, 5e5);
  if (hf.json().boolean_or("use_qk_norm", false)) {
    c.qk_norm = QkNorm::each_head;
    c.qk_norm_kind = NormKind::layer_norm;
  }
  return hf.finish(std::move(c), llama_recipes);
}

}  // namespace

extern const Family kCohereFamily = llama_family("cohere", read);

}  // namespace hooked
