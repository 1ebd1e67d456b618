// ELECTRA (Clark et al. 2020): BERT, with or without the generator's head; the discriminator's head is not
// read.
#include <fmt/format.h>

#include "families/shared/bert_layout.h"

namespace hooked::families::electra {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bert_embeddings(r, /*offset=*/0);
  add_bert_blocks(r);
  r.mlm_head("generator_predictions.dense", "generator_predictions.LayerNorm");
  r.unembedding("generator_lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_bert_config(hf);  // the head's activation is exact GELU, whatever hidden_act says
  constexpr std::string_view kWidth = "embedding_size";
  if (const std::int64_t width = json.integer_or(kWidth, 128); width != c.d_model) {
    json.refuse(kWidth, fmt::format("is not hidden_size, and a projection after the normed sum of embeddings "
                                    "is not supported; expected {}",
                                    c.d_model));
  }
  // Of the sequence head.
  json.ignore({"summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"});
  return c;
}

constexpr std::string_view kBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids"};

}  // namespace

extern const Family kFamily{.model_type = "electra",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "electra.",
                            .unembedding = "generator_lm_head.weight",
                            .optional_part = masked_lm_head("generator_"),
                            .buffers = kBuffers};

}  // namespace hooked::families::electra
