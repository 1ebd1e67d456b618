#include "text/pipeline/charsmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/utf8.h"
#include "hooked/core/error.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The fields of a unit of the trie.
std::uint32_t offset_of(std::uint32_t unit) noexcept { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
bool has_value(std::uint32_t unit) noexcept { return (unit >> 8 & 1) != 0; }
std::uint32_t label_of(std::uint32_t unit) noexcept { return unit & ((1U << 31) | 0xFF); }
std::uint32_t value_of(std::uint32_t unit) noexcept { return unit & ((1U << 31) - 1); }

// No rule is longer. This bounds the walk: in a trie with a cycle, it would go through the whole text at each
// of its bytes.
constexpr std::size_t kLongestKey = 1024;

// A value that points nowhere.
constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.size() < 4)
    throw std::invalid_argument(fmt::format("holds {} bytes; expected at least 4", bytes.size()));
  const auto trie_bytes = little_endian(bytes);
  bytes.remove_prefix(4);
  if (trie_bytes > bytes.size() || trie_bytes < 4 || trie_bytes % 4 != 0) {
    throw std::invalid_argument(
        fmt::format("says that its trie has {} bytes; expected a multiple of 4, 4 to the {} that follow",
                    trie_bytes, bytes.size()));
  }
  trie_.reserve(trie_bytes / 4);
  for (std::size_t i = 0; i < trie_bytes; i += 4) trie_.push_back(little_endian(bytes.substr(i)));
  replacements_ = bytes.substr(trie_bytes);
  if (const auto byte = first_invalid_byte(replacements_)) {
    throw std::invalid_argument(
        fmt::format("has replacements that are not UTF-8 at byte {}", 4 + trie_bytes + *byte));
  }
}

// Calls `visit({length, value})`, shortest first, until it returns false.
template <class Visit>
void Charsmap::for_each_key(std::string_view text, Visit&& visit) const {
  std::size_t node = offset_of(trie_[0]);
  for (std::size_t i = 0; i < std::min(text.size(), kLongestKey); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    if (label == 0) return;
    node ^= label;
    if (node >= trie_.size() || label_of(trie_[node]) != label) return;
    const auto unit = trie_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (!visit(Found{i + 1, node < trie_.size() ? value_of(trie_[node]) : kNowhere})) return;
  }
}

std::optional<Charsmap::Rule> Charsmap::rule(const std::optional<Found>& found) const {
  if (!found) return std::nullopt;
  if (found->value <= replacements_.size()) {
    const std::string_view rest = std::string_view(replacements_).substr(found->value);
    const auto replacement = rest.substr(0, rest.find('\0'));
    if (!first_invalid_byte(replacement)) return Rule{found->length, replacement};
  }
  throw TokenizerError(
      "normalizer.precompiled_charsmap",
      "a rule points outside its replacements; expected a charsmap as SentencePiece writes it");
}

std::optional<Charsmap::Rule> Charsmap::shortest(std::string_view text) const {
  std::optional<Found> found;
  for_each_key(text, [&](const Found& key) {
    found = key;
    return false;
  });
  return rule(found);
}

std::optional<Charsmap::Rule> Charsmap::longest(std::string_view text) const {
  std::optional<Found> found;
  for_each_key(text, [&](const Found& key) {
    found = key;
    return true;
  });
  if (found && found->length < text.size() && !first_char(text.substr(found->length))) {
    throw TokenizerError(
        "normalizer.precompiled_charsmap",
        "a rule replaces a part of a character; expected a charsmap as SentencePiece writes it");
  }
  return rule(found);
}

}  // namespace hooked::text
