#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hooked {

/// Which tokens a continuation may not have, or must have, whatever their logits: the rules that a model's
/// generation_config.json gives transformers' `generate`. What they count are a row's tokens, without padding
/// and without a prefix; of an encoder-decoder the decoder's.
struct TokenRules {
  std::int64_t no_repeat_ngram_size = 0;  ///< no so many tokens come twice in the same order; 0: they may
  std::vector<std::vector<std::int64_t>> banned =
      {};                       ///< tokens that may not follow one another, or one alone
  std::int64_t min_length = 0;  ///< no stop token before a row has so many tokens, those of the prompt too
  std::int64_t min_new_tokens = 0;                           ///< no stop token among so many new tokens
  std::optional<std::int64_t> forced_second = std::nullopt;  ///< what follows the first token of a row
  std::vector<std::int64_t> forced_last = {};       ///< one of them is the last of max_new_tokens; empty: any
  std::vector<std::int64_t> suppressed = {};        ///< never
  std::vector<std::int64_t> suppressed_first = {};  ///< not as the first new token that is not forced

  bool operator==(const TokenRules&) const = default;
};

}  // namespace hooked
