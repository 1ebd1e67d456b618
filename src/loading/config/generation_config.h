#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "families/family.h"
#include "loading/config/token_rules.h"

namespace hooked {

/// The options of a model's files about generating with it.
struct GenerationConfig {
  std::optional<std::vector<std::int64_t>> stop_tokens;  ///< the file's `eos_token_id`
  std::optional<std::int64_t> decoder_start_token;
  TokenRules rules;
  /// Reports options that `generate` does not support, and keys that transformers does not know.
  std::vector<std::string> notes;
};

/// Reads the folder's generation_config.json or, if there is none, the same keys of `config`, the model's
/// config.json, as transformers does. Ids outside the vocabulary of `d_vocab` are left out with a note.
/// Throws ConfigError at a key whose value has another type, and for a decoder that starts outside the
/// vocabulary.
GenerationConfig read_generation_config(const std::filesystem::path& folder, const ConfigText& config,
                                        std::int64_t d_vocab);

/// A generation_config.json with the same content; empty if there is nothing to say.
std::string generation_config_json(const std::vector<std::int64_t>& stop_tokens, const TokenRules& rules);

}  // namespace hooked
