#pragma once

#include <memory>
#include <vector>

#include "text/json_node.h"
#include "text/pre_tokenized.h"

namespace hooked {

/// A step that cuts a normalized text into words. Immutable.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PreTokenized& text) const = 0;

  /// Whether all that this step does is to spell each byte as one character, which a model that reads bytes
  /// can do without.
  virtual bool only_spells_bytes() const noexcept { return false; }
};

using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

/// Reads the `pre_tokenizer` of a tokenizer.json as steps, one after the other; none where there is none.
/// Throws TokenizerError.
PreTokenizers read_pre_tokenizer(const JsonNode& node);

}  // namespace hooked
