#pragma once

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// The config of an encoder with norms after the additions, a normed sum of embeddings and a masked-LM head,
/// under BERT's keys.
ModelConfig read_bert_config(HfConfig& hf);

/// What such encoders share, whatever their keys: norms, biases, direction, the head with its activation.
ModelConfig as_encoder(ModelConfig config, Activation head);

/// BERT's embeddings and blocks; `offset` rows at the start of the position table belong to no position.
void add_bert_body(Recipes& r, std::int64_t offset);

}  // namespace hooked
