#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"

namespace hooked {

/// SentencePiece's compiled rules (`precompiled_charsmap`): strings and what to put in their place.
///
/// The bytes are a little-endian uint32 with the size of a double-array trie in bytes, the trie (units of
/// 32 bits as Darts-clone packs them) and the replacements, each ended by a NUL. A key's value is where its
/// replacement begins.
class PrecompiledNormalizer : public Normalizer {
 public:
  /// Throws std::invalid_argument with the reason when `charsmap` is not of that form.
  explicit PrecompiledNormalizer(std::string_view charsmap);

  void apply(NormalizedString& text) const override;

 private:
  std::optional<std::string_view> replacement(std::string_view text) const;

  std::vector<std::uint32_t> trie_;
  std::string replacements_;
};

/// The bytes that standard base64 with padding stands for, or nothing when it is not that.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace hooked
