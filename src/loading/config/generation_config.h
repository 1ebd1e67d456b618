#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "families/family.h"
#include "loading/config/token_rules.h"

namespace hooked {

/// What a model's files say about generating with it.
struct GenerationConfig {
  std::optional<std::vector<std::int64_t>> stop_tokens;  ///< as `eos_token_id` has them
  std::optional<std::int64_t> decoder_start_token;
  TokenRules rules;
  /// Names what the file asks for and `generate` does not do, and keys that transformers does not know.
  std::vector<std::string> notes;
};

/// Reads the folder's generation_config.json, or where there is none, as transformers does, the same keys of
/// `config`, the model's config.json. Ids that the vocabulary of `d_vocab` lacks are left out with a note.
/// Throws ConfigError at a key whose value has another type, and for a decoder that starts outside of the
/// vocabulary.
GenerationConfig read_generation_config(const std::filesystem::path& folder, const ConfigText& config,
                                        std::int64_t d_vocab);

/// A generation_config.json that says the same; empty where there is nothing to say.
std::string generation_config_json(const std::vector<std::int64_t>& stop_tokens, const TokenRules& rules);

}  // namespace hooked
