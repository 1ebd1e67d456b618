#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hooked/analysis/prompt_pairs.h"
#include "hooked/engine/hooked_transformer.h"

namespace ioi {

/// Which prompts indirect_object_pairs draws. For designated initialisers.
struct IndirectObjectOptions {
  std::int64_t count = 32;  ///< pairs, no two the same
  std::uint64_t seed = 0;   ///< the same seed draws the same pairs
  /// First names to choose from. At least two of them must be one token after a space. Empty: a list of
  /// common names.
  std::vector<std::string> names = {};
  hooked::PromptPairOptions tokens = {};  ///< how they are tokenized
};

/// Prompts that ask who receives something ("When Mary and John went to the park, John gave a book to"),
/// after Wang et al. 2022, for any model's tokenizer: the names are those that it encodes as one token, which
/// is checked.
///
/// In the corrupted prompt the other person gives, so that the other name is right. `answers` of a pair is
/// the name that is right in the clean prompt, `against` the one that is right in the corrupted prompt. The
/// places `first` and `second` are the names in the order in which they appear; `giver` is the name that is
/// repeated.
///
/// Throws TokenizerError if fewer than two names are one token or no sentence can be written in the
/// vocabulary, ShapeError if more pairs are requested than exist, and what PromptPairs throws.
hooked::PromptPairs indirect_object_pairs(const hooked::HookedTransformer& model,
                                          const IndirectObjectOptions& options = {});

}  // namespace ioi
