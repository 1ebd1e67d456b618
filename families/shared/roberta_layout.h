#pragma once

#include "families/shared/bert_layout.h"

namespace hooked {

/// The config of RoBERTa under its own keys: BERT's, but positions are counted from pad_token_id + 1 as in
/// fairseq. Throws ConfigError if the padding token leaves no positions.
ModelConfig read_roberta_config(HfConfig& hf);

/// Number of rows of the position table before the first token's.
std::int64_t roberta_position_offset(const HfConfig& hf);

/// RoBERTa's masked-LM head. Its activation is exact GELU, whatever hidden_act says.
void add_roberta_head(Recipes& r);

/// The whole layout of RoBERTa.
std::vector<TensorRecipe> roberta_recipes(const ModelConfig& config, const HfConfig& hf);

inline constexpr std::string_view kRobertaBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                                       "lm_head.bias", "lm_head.decoder.bias"};

/// The row of a family whose files use RoBERTa's names.
constexpr Family roberta_family(std::string_view model_type, std::string_view prefix,
                                ModelConfig (*read)(HfConfig& config) = read_roberta_config,
                                FamilyRecipes recipes = roberta_recipes) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = prefix,
          .unembedding = "lm_head.decoder.weight",
          .optional_part = masked_lm_head("lm_head."),
          .buffers = kRobertaBuffers};
}

}  // namespace hooked
