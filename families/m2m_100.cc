// M2M-100 (Fan et al. 2020) and NLLB-200 (NLLB Team 2022) except its mixtures: pre-norm sublayers, a scaled
// embedding, positions of sines and cosines that are counted from pad_token_id + 1 and not stored.
#include <ATen/core/Tensor.h>

#include "families/shared/bart_layout.h"
#include "families/shared/fairseq_layout.h"

namespace hooked::families::m2m_100 {
namespace {

std::int64_t first_row(const HfConfig& hf) { return hf.json().integer_or("pad_token_id", 1) + 1; }

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_bart_config(hf, {.scale_embedding = true, .activation = "relu", .decoder_start = 2});
  c.unembedding->bias = false;
  if (c.d_model < 4)
    hf.json().refuse("d_model", "is too small for sinusoidal positions; expected at least 4");
  if (first_row(hf) < 1) hf.json().refuse("pad_token_id", "is negative; expected a token, or no such key");
  hf.positions_count_without(first_row(hf) - 1);
  return c;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  const auto positions = [c, first = first_row(hf)](const auto&) { return fairseq_sinusoids(c, first); };
  r.make("pos_embed.W_pos", {}, positions);
  r.make("decoder_embed.W_pos", {}, positions);
  add_bart_stacks(r, c);
  return std::move(r).take();
}

constexpr std::string_view kBuffers[] = {"*embed_positions.weights"};

}  // namespace

extern const Family kFamily = bart_family("m2m_100", read, recipes, kBuffers);

}  // namespace hooked::families::m2m_100
