#pragma once

#include <string_view>
#include <vector>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// The config of T5's kin with both stacks, without what their outputs are multiplied by. `usual_mlp` is the
/// `feed_forward_proj` of files that name none.
ModelConfig read_t5_config(HfConfig& hf, std::string_view usual_mlp);

/// Whether what the unembedding reads is scaled by d_model^-1/2: `scale_decoder_outputs`, or in older configs
/// `tie_word_embeddings`.
void read_t5_output_scale(const HfConfig& hf, ModelConfig& config);

/// That config, or its encoder alone where the file says so.
ModelConfig t5_stacks(const HfConfig& hf, ModelConfig whole);

/// Both stacks, or the encoder alone.
std::vector<TensorRecipe> t5_recipes(const ModelConfig& config);

/// Files hold the shared embedding under each stack's name as well; an encoder's may have no other.
inline constexpr std::string_view kT5Embeddings[] = {"encoder.embed_tokens.weight",
                                                     "decoder.embed_tokens.weight"};

/// A table that old files hold and nothing reads.
inline constexpr std::string_view kT5Buffers[] = {
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};

/// The row of a family whose files name things as T5's do.
constexpr Family t5_family(std::string_view model_type, ModelConfig (*read)(HfConfig& config)) {
  return {
      .model_type = model_type,
      .read = read,
      .recipes = t5_recipes,
      .unembedding = "lm_head.weight",
      .optional_part = {.name = "decoder",
                        .tensors = "decoder.",
                        .in = [](const ModelConfig& c) { return c.has_encoder(); },
                        .without = encoder_alone,
                        .what_is_left = "the model is the encoder, which ends with its final norm and has "
                                        "no logits"},
      .embedding_copies = kT5Embeddings,
      .buffers = kT5Buffers};
}

}  // namespace hooked
