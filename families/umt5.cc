// UMT5 (Chung et al. 2023): mT5 with separate relative positions in every block.
#include "families/shared/t5_layout.h"

namespace hooked::families::umt5 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_t5_config(hf, "gated-gelu");
  c.relative()->in_every_block = true;
  read_t5_output_scale(hf, c);
  // Whatever `tie_word_embeddings` says of the matrices: the files decide, as in transformers.
  c.unembedding->tied = true;
  return t5_stacks(hf, c);
}

}  // namespace

extern const Family kFamily = t5_family("umt5", read);

}  // namespace hooked::families::umt5
