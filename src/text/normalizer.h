#pragma once

#include <memory>

#include "text/json_node.h"
#include "text/normalized_string.h"

namespace hooked {

/// A step that changes a text before it is cut into words. Immutable.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedString& text) const = 0;
};

/// Reads the `normalizer` of a tokenizer.json; null where there is none. Throws TokenizerError.
std::unique_ptr<const Normalizer> read_normalizer(const JsonNode& node);

}  // namespace hooked
