#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/json_node.h"

namespace hooked {

/// A step from the spellings of tokens back to text. Immutable.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// What becomes of the tokens' texts, put together in the end.
  virtual std::vector<std::string> apply(std::vector<std::string> texts) const = 0;

  /// The bytes that one token amid others adds to a text, which may be a part of a character.
  virtual std::string bytes_of(std::string text) const { return text; }
};

/// Reads the `decoder` of a tokenizer.json; null where there is none. Throws TokenizerError.
std::unique_ptr<const Decoder> read_decoder(const JsonNode& node);

}  // namespace hooked
