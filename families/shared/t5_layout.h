#pragma once

#include <string_view>
#include <vector>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// The config of T5 and its relatives with both stacks, without the factors of their outputs. `usual_mlp` is
/// the `feed_forward_proj` of files that do not name one.
ModelConfig read_t5_config(HfConfig& hf, std::string_view usual_mlp);

/// Whether the unembedding's input is scaled by d_model^-1/2: `scale_decoder_outputs`, or in older configs
/// `tie_word_embeddings`.
void read_t5_output_scale(const HfConfig& hf, ModelConfig& config);

/// That config, or only its encoder if the file says so.
ModelConfig t5_stacks(const HfConfig& hf, ModelConfig whole);

/// Both stacks, or only the encoder.
std::vector<TensorRecipe> t5_recipes(const ModelConfig& config);

/// Files also have the shared embedding under each stack's name; an encoder's may have no other.
inline constexpr std::string_view kT5Embeddings[] = {"encoder.embed_tokens.weight",
                                                     "decoder.embed_tokens.weight"};

/// A table in old files that nothing reads.
inline constexpr std::string_view kT5Buffers[] = {
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};

/// The row of a family whose files use T5's names.
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
