#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hooked {

/// Which tokens a continuation may not or must have, whatever their logits: the rules in a model's
/// generation_config.json for transformers' `generate`. They count a row's tokens, without padding and
/// without a prefix; for an encoder-decoder, the decoder's tokens.
struct TokenRules {
  std::int64_t no_repeat_ngram_size = 0;  ///< no sequence of this many tokens appears twice; 0: it may
  std::vector<std::vector<std::int64_t>> banned =
      {};                       ///< sequences of tokens, or single tokens, that may not appear
  std::int64_t min_length = 0;  ///< no stop token before a row has this many tokens, with those of the prompt
  std::int64_t min_new_tokens = 0;                           ///< no stop token among this many new tokens
  std::optional<std::int64_t> forced_second = std::nullopt;  ///< the token after the first one of a row
  std::vector<std::int64_t> forced_last = {};       ///< one of them is the last of max_new_tokens; empty: any
  std::vector<std::int64_t> suppressed = {};        ///< never generated
  std::vector<std::int64_t> suppressed_first = {};  ///< not as the first new token that is not forced

  bool operator==(const TokenRules&) const = default;
};

}  // namespace hooked
