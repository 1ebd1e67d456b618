#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/normalizer.h"

namespace hooked::text {

/// Reads a normalizer of SentencePiece's compiled rules (`precompiled_charsmap`): strings and what replaces
/// them.
///
/// The bytes are a little-endian uint32 with the size of a double-array trie in bytes, the trie (units of
/// 32 bits as Darts-clone packs them) and the replacements, each ended by a NUL. A key's value is where its
/// replacement begins. Throws TokenizerError when they have another form.
std::unique_ptr<const Normalizer> read_precompiled_normalizer(const ConfigReader& json);

/// The bytes that standard base64 with padding stands for, or nothing for any other text.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace hooked::text
