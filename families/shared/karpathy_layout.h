#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "families/shared/hf_config.h"

namespace hooked {

// nanoGPT and minGPT: GPT-2's names with linear maps stored [out, in], and their own config keys.

/// The sizes that the tensors of such a checkpoint show; everything but the number of heads.
struct GptShapes {
  std::int64_t n_layer = 0;
  std::int64_t n_embd = 0;
  std::int64_t vocab_size = 0;
  std::int64_t block_size = 0;
  bool bias = false;
};

/// The sizes, if the tensors have GPT-2's names and linear maps stored [out, in]: GPT-2 itself has [in, out].
std::optional<GptShapes> gpt_shapes(const CheckpointTraits& seen);

/// The sizes, if the tensors are those of minGPT before 2022, with separate queries, keys and values.
std::optional<GptShapes> early_mingpt_shapes(const CheckpointTraits& seen);

/// nanoGPT's config, which its files have in addition to the tensors.
std::optional<Json> model_args(const CheckpointTraits& seen);

/// Sets what `config` lacks (or has as null) to what the tensors show.
void add_sizes(Json& config, const GptShapes& shapes);

/// A JSON object, in the form of CheckpointTraits. Throws ConfigError.
Json object_of(const std::string& text, const std::string& where);

/// Throws ConfigError that says how to name family and number of heads in config.json.
[[noreturn]] void refuse_without_heads(const CheckpointTraits& seen, std::string_view model_types);

/// Reads `n_layer`, `n_head`, `n_embd`, `block_size` and `vocab_size`.
ModelConfig read_gpt_sizes(HfConfig& hf, bool tied, bool bias);

std::vector<TensorRecipe> gpt_recipes(const ModelConfig& config);
std::vector<TensorRecipe> early_mingpt_recipes(const ModelConfig& config);

}  // namespace hooked
