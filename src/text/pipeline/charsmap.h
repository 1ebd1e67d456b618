#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hooked::text {

/// SentencePiece's compiled rules (`precompiled_charsmap`): strings, and what replaces them.
///
/// The bytes are a little-endian uint32 with the size of a double-array trie in bytes, the trie (units of
/// 32 bits as Darts-clone packs them) and the replacements, each ended by a NUL. A key's value is where its
/// replacement begins.
class Charsmap {
 public:
  /// Throws std::invalid_argument with the reason when `bytes` have another form.
  explicit Charsmap(std::string_view bytes);

  /// A rule that a text begins with.
  struct Rule {
    std::size_t length;            ///< bytes of the text that it replaces
    std::string_view replacement;  ///< may be empty; lives as long as the charsmap
  };

  /// The shortest and the longest of the rules that `text`, valid UTF-8, begins with. Throw TokenizerError
  /// for a rule that points outside the replacements, and the second for one that ends inside a character.
  std::optional<Rule> shortest(std::string_view text) const;
  std::optional<Rule> longest(std::string_view text) const;

 private:
  struct Found {
    std::size_t length;
    std::uint32_t value;
  };
  template <class Visit>
  void for_each_key(std::string_view text, Visit&& visit) const;
  std::optional<Rule> rule(const std::optional<Found>& found) const;

  std::vector<std::uint32_t> trie_;
  std::string replacements_;
};

}  // namespace hooked::text
