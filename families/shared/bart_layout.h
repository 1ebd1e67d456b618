#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked {

/// What the families that grew out of fairseq's BART do otherwise where their config.json does not say it.
struct BartDefaults {
  std::int64_t n_ctx = 1024;
  bool scale_embedding = false;
  std::string_view activation = "gelu";
  std::optional<std::int64_t> decoder_start = std::nullopt;  ///< none: bos_token_id, or none at all
};

/// The config of an encoder-decoder with norms before its sublayers and behind each stack, positions added to
/// the embedding in both, biases everywhere and one on the logits (`final_logits_bias`), under BART's keys.
/// What the config says of one stack it must say of the other. Throws ConfigError.
ModelConfig read_bart_config(HfConfig& hf, const BartDefaults& defaults);

/// Norms behind the additions: none of a stack's own behind its last block.
ModelConfig with_post_norms(ModelConfig config);

/// The embedding that both stacks share, their blocks, their norms and the bias of the logits: all but
/// positions.
void add_bart_stacks(Recipes& r, const ModelConfig& config);

/// Learned positions of both stacks, each behind `offset` rows that belong to no position.
void add_bart_positions(Recipes& r, std::int64_t offset);

/// The whole layout of BART: learned positions behind fairseq's two rows, and both stacks.
std::vector<TensorRecipe> bart_recipes(const ModelConfig& config);

/// Positions of both stacks that are sines and then cosines: computed, as files of Marian do not hold them.
void add_sinusoidal_positions(Recipes& r, const ModelConfig& config);

/// Other names of the embedding.
inline constexpr std::string_view kBartEmbeddings[] = {"encoder.embed_tokens.weight",
                                                       "decoder.embed_tokens.weight"};

/// The row of a family whose files name things as BART's do.
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
