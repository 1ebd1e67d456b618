#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hooked::text {

/// SentencePiece's compiled rules (`precompiled_charsmap`): strings and their replacements.
///
/// The bytes are a little-endian uint32 with the size of a double-array trie in bytes, the trie (units of 32
/// bits as Darts-clone packs them) and the replacements, each terminated by a NUL. A key's value is the
/// offset of its replacement.
class Charsmap {
 public:
  /// Throws std::invalid_argument with the reason if `bytes` are malformed.
  explicit Charsmap(std::string_view bytes);

  /// A rule that matches the beginning of a text.
  struct Rule {
    std::size_t length;            ///< bytes of the text that it replaces
    std::string_view replacement;  ///< may be empty; lives as long as the charsmap
  };

  /// The shortest and the longest rule at the beginning of `text`, valid UTF-8. Both throw TokenizerError for
  /// a rule that points outside the replacements, the second also for one that ends inside a character.
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
