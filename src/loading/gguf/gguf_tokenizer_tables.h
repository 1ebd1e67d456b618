#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_value.h"

namespace hooked {

/// How a text is cut into words before BPE, by its name in a GGUF file (`tokenizer.ggml.pre`): a row of the
/// table in gguf_tokenizer_tables.cc.
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

/// The prefix of the keys of a GGUF file's tokenizer.
inline constexpr std::string_view kTokenizerKeys = "tokenizer.ggml.";

/// Keys of a GGUF file's tokenizer that could change ids but that read_gguf_tokenizer() does not honour.
std::vector<std::string> unread_tokenizer_keys(const GgufMetadata& metadata);

}  // namespace hooked
