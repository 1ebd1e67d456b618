#pragma once

#include <string_view>

#include "tests/fuzz/golden_tokenizers.h"
#include "tests/fuzz/tokenizer_json_property.h"

namespace hooked {

/// encode_property of a golden tokenizer, which the first byte of the input chooses.
inline bool encode_property(std::string_view input) {
  static const auto tokenizers = golden_tokenizers();
  const auto [number, text] = chosen(input, tokenizers.size());
  return encode_property(tokenizers[number].tokenizer, text);
}

}  // namespace hooked
