// Marian (Junczys-Dowmunt et al. 2018), the translators of OPUS-MT: norms after the additions, positions of
// sines and cosines.
#include "families/shared/bart_layout.h"

namespace hooked::families::marian {
namespace {

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = with_post_norms(read_bart_config(hf, {.decoder_start = 58100}));
  if (!json.boolean_or("share_encoder_decoder_embeddings", true)) {
    json.refuse("share_encoder_decoder_embeddings",
                "says that each stack has a vocabulary of its own; expected true: one for both");
  }
  json.ignore({"decoder_vocab_size"});  // of vocabularies that are not shared
  return c;
}

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_sinusoidal_positions(r, c);
  add_bart_stacks(r, c);
  return std::move(r).take();
}

constexpr std::string_view kBuffers[] = {"*embed_positions.weight"};

}  // namespace

extern const Family kFamily = bart_family("marian", read, recipes, kBuffers);

}  // namespace hooked::families::marian
