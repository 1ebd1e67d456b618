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

/// A word that is one token with a blank in front and another one without.
struct OtherSpelling {
  std::int64_t token;        ///< of the text as it was given
  std::string other;         ///< the text with the blank added or taken away
  std::int64_t other_token;  ///< of that
};

/// The other spelling of `Mary`, ` Mary`, or of ` Mary`, `Mary`; nothing where either is no single token, or
/// both are the same one. Throws TokenizerError where the model has no tokenizer.
std::optional<OtherSpelling> other_spelling(const HookedTransformer& model, std::string_view text);

/// Which answers are looked at, and where. For designated initialisers.
struct SpellingOptions {
  std::map<std::string, std::int64_t> answers = {};  ///< each text, and a row of the input that it is for
  Position position = Position::last();              ///< after which token
  std::vector<Edit> edits = {};                      ///< in force in the run
};

/// Notes on answers whose other spelling is one token too, with the ids and ranks (from 0) of both: on each
/// that has no blank in front, because what follows a word has one in most tokenizers, and on each whose
/// other spelling is likelier. Runs the model where there is one to note. Throws as Metric::score() and
/// other_spelling().
std::vector<std::string> spelling_notes(const HookedTransformer& model, const Input& input,
                                        const SpellingOptions& options);

}  // namespace hooked
