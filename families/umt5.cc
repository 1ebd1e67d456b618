// UMT5 (Chung et al. 2023): mT5 with relative positions of its own in every block. What the unembedding reads
// is scaled as in T5 1.0.
#include <cmath>

#include "families/shared/t5_layout.h"

namespace hooked::families::umt5 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_t5_config(hf, "gated-gelu");
  c.relative()->in_every_block = true;
  // Whatever `tie_word_embeddings` says: the files decide, as in transformers, which scales by it all the
  // same.
  c.unembedding->tied = true;
  c.unembedding->in_scale = 1.0 / std::sqrt(static_cast<double>(c.d_model));
  return t5_stacks(hf, c);
}

}  // namespace

extern const Family kFamily = t5_family("umt5", read);

}  // namespace hooked::families::umt5
