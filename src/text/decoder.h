#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config_reader.h"

namespace hooked::text {

/// A step from the spellings of tokens back to text. Immutable.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Changes the tokens' texts, which are joined after the last step.
  virtual std::vector<std::string> apply(std::vector<std::string> texts) const = 0;

  /// The bytes that one token between others adds to a text. They may be a part of a character.
  virtual std::string bytes_of(std::string text) const { return text; }
};

/// Reads a `decoder` of a tokenizer.json. Throws TokenizerError.
std::unique_ptr<const Decoder> read_decoder(const ConfigReader& json);

}  // namespace hooked::text
