// T5 1.0 and 1.1 (Raffel et al. 2020; gated MLPs: Shazeer 2020), both stacks or the encoder alone.
#include <cmath>

#include "families/shared/t5_layout.h"

namespace hooked::families::t5 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_t5_config(hf, "relu");
  // Older configs say by `tie_word_embeddings` whether the output is scaled, too.
  if (hf.json().boolean_or("scale_decoder_outputs", c.tied_unembedding())) {
    c.unembedding->in_scale = 1.0 / std::sqrt(static_cast<double>(c.d_model));
  }
  return t5_stacks(hf, c);
}

}  // namespace

extern const Family kFamily = t5_family("t5", read);

}  // namespace hooked::families::t5
