// mT5 (Xue et al. 2021): T5 1.1 over another vocabulary. The unembedding's input is not scaled.
#include "families/shared/t5_layout.h"

namespace hooked::families::mt5 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_t5_config(hf, "gated-gelu");
  // Whatever `tie_word_embeddings` says: the files decide, as in transformers.
  c.unembedding->tied = true;
  return t5_stacks(hf, c);
}

}  // namespace

extern const Family kFamily = t5_family("mt5", read);

}  // namespace hooked::families::mt5
