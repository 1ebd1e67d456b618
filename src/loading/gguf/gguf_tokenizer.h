#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_value.h"
#include "loading/config/tokenizer_files.h"

namespace hooked {

/// The tokenizer of a GGUF file as the tokenizer.json and tokenizer_config.json that say the same; a saved
/// model has them beside it. The template of chats is in the second, under its usual key. Like that of a
/// folder it is a note, and no error, where it cannot be read. `where` is the file's name.
TokenizerFiles read_gguf_tokenizer(const GgufMetadata& metadata, const ModelConfig& config,
                                   const std::string& where);

/// That tokenizer without a model. Throws TokenizerError where there is none or none that can be used.
Tokenizer gguf_tokenizer(const GgufMetadata& metadata, const std::string& where);

/// The tokens that end a generation, as the file names them; none where it does not.
std::vector<std::int64_t> gguf_stop_tokens(const GgufMetadata& metadata);

}  // namespace hooked
