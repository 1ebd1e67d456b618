#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// A word that is one token with a leading space and another one without.
struct OtherSpelling {
  std::int64_t token;        ///< of the given text
  std::string other;         ///< the text with the leading space added or removed
  std::int64_t other_token;  ///< its token
};

/// The other spelling: ` Mary` for `Mary`, and `Mary` for ` Mary`; nothing if either is not a single token,
/// or both are the same one. Throws TokenizerError if the model has no tokenizer.
std::optional<OtherSpelling> other_spelling(const HookedTransformer& model, std::string_view text);

/// Which answers are looked at, and where. For designated initialisers.
struct SpellingOptions {
  std::map<std::string, std::int64_t> answers = {};  ///< each text, and the row of the input that it is for
  Position position = Position::last();              ///< after which token
  Edits edits = {};                                  ///< active in the run
};

/// Notes on answers whose other spelling is one token too, with the ids and ranks (from 0) of both: on each
/// that has no leading space, because in most tokenizers a word in running text has one, and on each whose
/// other spelling is likelier. Runs the model if there is one to note. Throws as Metric::score() and
/// other_spelling().
std::vector<std::string> spelling_notes(const HookedTransformer& model, const Input& input,
                                        const SpellingOptions& options);

}  // namespace hooked
