#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/normalizer.h"

namespace hooked::text {

/// Reads a normalizer of SentencePiece's compiled rules (`precompiled_charsmap`, a Charsmap in base64), as
/// the package `tokenizers` applies them. Throws TokenizerError when they have another form.
std::unique_ptr<const Normalizer> read_precompiled_normalizer(const ConfigReader& json);

/// The bytes that standard base64 with padding stands for, or nothing for any other text.
std::optional<std::string> decode_base64(std::string_view text);
std::string encode_base64(std::string_view bytes);

}  // namespace hooked::text
