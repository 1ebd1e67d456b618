#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/pipeline/normalizer.h"

namespace hooked::text {

/// Reads a normalizer with SentencePiece's compiled rules (`precompiled_charsmap`, a Charsmap in base64), as
/// the package `tokenizers` applies them. Throws TokenizerError if they are malformed.
std::unique_ptr<const Normalizer> read_precompiled_normalizer(const ConfigReader& json);

}  // namespace hooked::text
