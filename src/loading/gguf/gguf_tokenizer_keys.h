#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_value.h"

namespace hooked {

/// The prefix of the keys of a GGUF file's tokenizer.
inline constexpr std::string_view kTokenizerKeys = "tokenizer.ggml.";

/// Keys of a GGUF file's tokenizer that could change ids but that read_gguf_tokenizer() does not honour.
std::vector<std::string> unread_tokenizer_keys(const GgufMetadata& metadata);

}  // namespace hooked
