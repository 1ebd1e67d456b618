#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/config_reader.h"
#include "text/strings/pre_tokenized.h"

namespace hooked::text {

/// A step that cuts a normalized text into words. Immutable.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PreTokenized& text) const = 0;

  /// Whether the step only spells each byte as one character; a model that reads bytes does not need
  /// it.
  virtual bool only_spells_bytes() const noexcept { return false; }
};

/// Steps in sequence.
using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

/// Reads a `pre_tokenizer` of a tokenizer.json. Throws TokenizerError.
PreTokenizers read_pre_tokenizer(const ConfigReader& json);

/// Where the pre-tokenizer Metaspace puts its character, in addition to replacing blanks.
enum class PrependScheme : std::uint8_t {
  always,  ///< before every piece that does not begin with the character
  first,   ///< before the piece at the beginning of the text only
  never,
};
inline constexpr Named<PrependScheme> kPrependSchemes[] = {
    {"always", PrependScheme::always}, {"first", PrependScheme::first}, {"never", PrependScheme::never}};

}  // namespace hooked::text
