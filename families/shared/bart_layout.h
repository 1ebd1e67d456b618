#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// Defaults of the families derived from fairseq's BART, if their config.json does not say otherwise.
struct BartDefaults {
  std::int64_t n_ctx = 1024;
  bool scale_embedding = false;
  std::string_view activation = "gelu";
  std::optional<std::int64_t> decoder_start = std::nullopt;  ///< none: bos_token_id, or none at all
};

/// The config of an encoder-decoder with norms before its sublayers and after each stack, positions added to
/// the embedding in both, biases everywhere and one on the logits (`final_logits_bias`), under BART's keys.
/// The config must say the same of both stacks. Throws ConfigError.
ModelConfig read_bart_config(HfConfig& hf, const BartDefaults& defaults);

/// Norms after the additions (post-norm): a stack has no other norm after its last block.
ModelConfig with_post_norms(ModelConfig config);

/// The embedding that both stacks share, their blocks, their norms and the bias of the logits: everything
/// except positions.
void add_bart_stacks(Recipes& r, const ModelConfig& config);

/// Learned positions of both stacks, each after `offset` rows that belong to no position.
void add_bart_positions(Recipes& r, std::int64_t offset);

/// The whole layout of BART: learned positions after fairseq's two rows, and both stacks.
std::vector<TensorRecipe> bart_recipes(const ModelConfig& config);

/// Positions of both stacks as sines and then cosines: computed, because Marian's files do not have them.
void add_sinusoidal_positions(Recipes& r, const ModelConfig& config);

/// Other names of the embedding.
inline constexpr std::string_view kBartEmbeddings[] = {"encoder.embed_tokens.weight",
                                                       "decoder.embed_tokens.weight"};

/// The row of a family whose files use BART's names.
constexpr Family bart_family(std::string_view model_type, ModelConfig (*read)(HfConfig& config),
                             FamilyRecipes recipes, std::span<const std::string_view> buffers = {}) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = "model.",
          .unembedding = "lm_head.weight",
          .embedding_copies = kBartEmbeddings,
          .buffers = buffers};
}

}  // namespace hooked
