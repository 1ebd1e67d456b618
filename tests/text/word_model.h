#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/text/json_of.h"
#include "text/model/model.h"

namespace hooked::text {

using Ids = std::vector<std::int64_t>;

/// The ids of a word and their bytes in it.
struct Encoded {
  Ids ids;
  std::vector<TextSpan> spans;
};

/// The tokens of one word.
inline Encoded encoded(const Model& model, std::string_view word) {
  std::vector<WordToken> tokens;
  model.encoder(word.size())->encode(word, tokens);
  Encoded encoded;
  for (const auto& token : tokens) {
    encoded.ids.push_back(token.id);
    encoded.spans.push_back(token.span);
  }
  return encoded;
}

/// The model that a tokenizer.json describes in its member `model`.
inline std::unique_ptr<const Model> model_of(std::string_view json,
                                             WordSpelling spelling = WordSpelling::characters) {
  return read_model(json_of(json), spelling);
}

}  // namespace hooked::text
