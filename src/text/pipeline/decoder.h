#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/config_reader.h"

namespace hooked::text {

/// What may follow the known texts.
enum class End : std::uint8_t {
  closed,   ///< nothing
  more,     ///< more texts
  growing,  ///< more texts, and the last one may become longer
};

/// The texts of tokens, which are joined after the last step.
struct TokenTexts {
  std::vector<std::string> texts;
  End end = End::closed;
};

/// A step from the spellings of tokens back to text. Immutable.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Changes the tokens' texts. Unless the end is closed, it returns only what holds whatever follows: with
  /// more texts after these, the result begins with the same text.
  virtual TokenTexts apply(TokenTexts in) const = 0;

  /// The bytes that one token between others adds to a text. They may be a part of a character.
  virtual std::string bytes_of(std::string text) const { return text; }
};

/// Reads a `decoder` of a tokenizer.json. Throws TokenizerError.
std::unique_ptr<const Decoder> read_decoder(const ConfigReader& json);

}  // namespace hooked::text
