#pragma once

#include <span>
#include <string_view>

namespace hooked {

/// How a text is cut into words before BPE, by its name in a GGUF file (`tokenizer.ggml.pre`): a row of the
/// table in gguf_pre_tokenizers.cc.
struct GgufPreTokenizer {
  std::span<const std::string_view> names;
  std::string_view pre_tokenizer;  ///< of a tokenizer.json
  std::string_view normalizer = "null";
  /// Whether a word that is a piece becomes that piece, whatever BPE would do.
  bool whole_words = false;
  bool prepends_bos = false;  ///< if the file does not say
};

std::span<const GgufPreTokenizer> gguf_pre_tokenizers();

/// The row of a name, or null.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

}  // namespace hooked
