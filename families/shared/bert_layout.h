#pragma once

#include <functional>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// The config of an encoder with norms after the additions (post-norm), a normed sum of embeddings and a
/// masked-LM head, under BERT's keys.
ModelConfig read_bert_config(HfConfig& hf);

/// What such encoders share, whatever their keys: norms, biases, direction, the head with its activation.
ModelConfig as_encoder(ModelConfig config, Activation head);

/// BERT's embeddings; `offset` rows at the start of the position table belong to no position.
void add_bert_embeddings(Recipes& r, std::int64_t offset);
/// The same, but `add_positions` adds the positions.
void add_bert_embeddings(Recipes& r, const std::function<void()>& add_positions);
/// The projections of a block's attention.
void add_bert_attention(Recipes& r);
/// The projections of a block's MLP.
void add_bert_mlp(Recipes& r);
/// BERT's blocks, with norms after the additions.
void add_bert_blocks(Recipes& r);
/// BERT's masked-LM head.
void add_bert_head(Recipes& r);

inline constexpr std::string_view kBertBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                                    "cls.predictions.bias", "cls.predictions.decoder.bias"};

/// The row of a family whose files name the masked-LM head as BERT's do.
constexpr Family bert_family(std::string_view model_type, std::string_view prefix,
                             ModelConfig (*read)(HfConfig& config), FamilyRecipes recipes) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = prefix,
          .unembedding = "cls.predictions.decoder.weight",
          .optional_part = masked_lm_head("cls.predictions."),
          .buffers = kBertBuffers};
}

}  // namespace hooked
