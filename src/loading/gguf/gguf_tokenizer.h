#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_value.h"
#include "loading/config/tokenizer_files.h"

namespace hooked {

/// The tokenizer of a GGUF file as an equivalent tokenizer.json and tokenizer_config.json, which a saved
/// model contains. The chat template is in the second, under its usual key. If it cannot be read, that is a
/// note and not an error, as for a folder. `where` is the file's name.
TokenizerFiles read_gguf_tokenizer(const GgufMetadata& metadata, const ModelConfig& config,
                                   const std::string& where);

/// That tokenizer without a model. Throws TokenizerError if there is none or it cannot be used.
Tokenizer gguf_tokenizer(const GgufMetadata& metadata, const std::string& where);

/// The tokens that end a generation, if the file names them.
std::vector<std::int64_t> gguf_stop_tokens(const GgufMetadata& metadata);

}  // namespace hooked
