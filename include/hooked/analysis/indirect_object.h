#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hooked/analysis/prompt_pairs.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// Which prompts indirect_object_pairs draws. For designated initialisers.
struct IndirectObjectOptions {
  std::int64_t count = 32;  ///< pairs, no two the same
  std::uint64_t seed = 0;   ///< the same seed draws the same pairs
  /// First names to choose from, of which the tokenizer must have two as one token behind a blank; empty: a
  /// list of common ones.
  std::vector<std::string> names = {};
  PromptPairOptions tokens = {};  ///< how they become tokens
};

/// Prompts that ask who gets something ("When Mary and John went to the park, John gave a book to"), after
/// Wang et al. 2022, for the tokenizer of any model: names are those that it has as one token, which is asked
/// of it.
///
/// The corrupted prompt lets the other person give, so that the other name is right. `answers` of a pair is
/// the name that is right in the clean prompt, `against` the one that is right in the corrupted prompt.
/// Places `first` and `second` are the names in the order in which they are said, `giver` is the one that is
/// said again.
///
/// Throws TokenizerError where fewer than two names are one token or no sentence can be written in the
/// vocabulary, ShapeError for more pairs than there are, and what PromptPairs throws.
PromptPairs indirect_object_pairs(const HookedTransformer& model, const IndirectObjectOptions& options = {});

}  // namespace hooked
