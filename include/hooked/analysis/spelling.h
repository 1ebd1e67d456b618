#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/metric.h"
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

/// Notes on answers of these metrics that were given as texts and whose other spelling is one token too, with
/// the ids and ranks (from 0) of both: on each that has no leading space, because in most tokenizers a word
/// in running text has one, and on each whose other spelling is likelier. At most four texts are noted, each
/// in the first row that it is for. Reports of sweeps have these notes among theirs.
///
///     spelling_notes(model, "When John and Mary went to the shop, John gave a bag to", logit("Mary"))
///
/// If there is one to note, runs the model once; `options` may edit and hook. Throws as Metric::score().
std::vector<std::string> spelling_notes(const HookedTransformer& model, const Input& input,
                                        const Metrics& metrics, const RunOptions& options = {});

}  // namespace hooked
