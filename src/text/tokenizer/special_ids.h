#pragma once

#include <cstdint>
#include <vector>

#include "hooked/text/tokenizer.h"

namespace hooked {

/// The tokens that structure a sequence, as far as the tokenizer's files name them: BOS, EOS, PAD and SEP.
/// Those of chat templates are not among them.
inline std::vector<std::int64_t> special_ids(const Tokenizer& tokenizer) {
  std::vector<std::int64_t> ids;
  for (const auto& id : {tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.special_id("pad_token"),
                         tokenizer.special_id("sep_token")}) {
    if (id) ids.push_back(*id);
  }
  return ids;
}

}  // namespace hooked
