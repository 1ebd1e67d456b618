#pragma once

#include <memory>

#include "core/config_reader.h"
#include "text/strings/normalized_string.h"

namespace hooked::text {

/// A step that changes a text before it is cut into words. Immutable.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedString& text) const = 0;
};

/// Reads a `normalizer` of a tokenizer.json. Throws TokenizerError.
std::unique_ptr<const Normalizer> read_normalizer(const ConfigReader& json);

/// Reads one with SentencePiece's compiled rules (`precompiled_charsmap`, a Charsmap in base64), as the
/// package `tokenizers` applies them. Throws TokenizerError if they are malformed.
std::unique_ptr<const Normalizer> read_precompiled_normalizer(const ConfigReader& json);

}  // namespace hooked::text
