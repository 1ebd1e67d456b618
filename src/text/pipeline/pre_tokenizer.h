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

  /// Whether all that this step does is to spell each byte as one character, which a model that reads bytes
  /// can do without.
  virtual bool only_spells_bytes() const noexcept { return false; }
};

/// Steps, one after the other.
using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

/// Reads a `pre_tokenizer` of a tokenizer.json. Throws TokenizerError.
PreTokenizers read_pre_tokenizer(const ConfigReader& json);

/// Where the pre-tokenizer Metaspace puts its character besides in the place of blanks.
enum class PrependScheme : std::uint8_t {
  always,  ///< before every piece that does not begin with the character
  first,   ///< before the piece at the beginning of the text only
  never,
};
inline constexpr Named<PrependScheme> kPrependSchemes[] = {
    {"always", PrependScheme::always}, {"first", PrependScheme::first}, {"never", PrependScheme::never}};

}  // namespace hooked::text
