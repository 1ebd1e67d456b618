#include "text/precompiled_normalizer.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/utf8.h"
#include "hooked/core/error.h"
#include "text/unicode.h"

namespace hooked::text {
namespace {

// Clusters of so many bytes and more are looked up character by character only.
constexpr std::size_t kLongCluster = 6;

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

void append_replacement(std::vector<Change>& changes, std::string_view old_part, std::string_view new_part) {
  const auto begin = changes.size();
  for_each_character(new_part, [&](char32_t c, std::string_view) { changes.push_back({c, 0}); });
  const auto removed = static_cast<std::ptrdiff_t>(count_characters(old_part));
  const auto added = static_cast<std::ptrdiff_t>(changes.size() - begin);
  // More characters than before: the last ones are new. Fewer: the last one, even if it stood there before,
  // takes the place of those that are gone.
  for (std::ptrdiff_t i = 0; i < added - removed; ++i)
    changes[changes.size() - 1 - static_cast<std::size_t>(i)].change = 1;
  if (added < removed && !changes.empty())
    changes.back().change += static_cast<std::int32_t>(added - removed);
}

class PrecompiledNormalizer : public Normalizer {
 public:
  // Throws std::invalid_argument with the reason when `charsmap` has another form.
  explicit PrecompiledNormalizer(std::string_view charsmap);

  void apply(NormalizedString& text) const override;

 private:
  std::optional<std::string_view> replacement(std::string_view text) const;

  std::vector<std::uint32_t> trie_;
  std::string replacements_;
};

PrecompiledNormalizer::PrecompiledNormalizer(std::string_view charsmap) {
  if (charsmap.size() < 4)
    throw std::invalid_argument(fmt::format("holds {} bytes; expected at least 4", charsmap.size()));
  const auto trie_bytes = little_endian(charsmap);
  charsmap.remove_prefix(4);
  if (trie_bytes > charsmap.size() || trie_bytes < 4 || trie_bytes % 4 != 0) {
    throw std::invalid_argument(
        fmt::format("says that its trie has {} bytes; expected a multiple of 4, 4 to the {} that follow",
                    trie_bytes, charsmap.size()));
  }
  trie_.reserve(trie_bytes / 4);
  for (std::size_t i = 0; i < trie_bytes; i += 4) trie_.push_back(little_endian(charsmap.substr(i)));
  replacements_ = charsmap.substr(trie_bytes);
  if (const auto byte = first_invalid_byte(replacements_)) {
    throw std::invalid_argument(
        fmt::format("has replacements that are not UTF-8 at byte {}", 4 + trie_bytes + *byte));
  }
}

// The replacement of the shortest key that `text` begins with: the rule of the tokenizers package, which
// vocabularies in use were made with.
std::optional<std::string_view> PrecompiledNormalizer::replacement(std::string_view text) const {
  std::size_t node = offset_of(trie_[0]);
  for (const auto byte : text) {
    if (byte == '\0') return std::nullopt;
    const auto label = static_cast<unsigned char>(byte);
    node ^= label;
    if (node >= trie_.size() || label_of(trie_[node]) != label) return std::nullopt;
    const auto unit = trie_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (node < trie_.size() && value_of(trie_[node]) <= replacements_.size()) {
      const std::string_view rest = std::string_view(replacements_).substr(value_of(trie_[node]));
      const auto found = rest.substr(0, rest.find('\0'));
      if (!first_invalid_byte(found)) return found;
    }
    throw TokenizerError(
        "normalizer.precompiled_charsmap",
        "a rule points outside its replacements; expected a charsmap as SentencePiece writes it");
  }
  return std::nullopt;
}

void PrecompiledNormalizer::apply(NormalizedString& text) const {
  std::vector<Change> changes;
  changes.reserve(text.text().size());
  bool changed = false;
  for (const auto cluster : graphemes(text.text())) {
    if (cluster.size() < kLongCluster) {
      if (const auto whole = replacement(cluster)) {
        append_replacement(changes, cluster, *whole);
        changed = true;
        continue;
      }
    }
    for_each_character(cluster, [&](char32_t c, std::string_view bytes) {
      if (const auto single = replacement(bytes)) {
        append_replacement(changes, bytes, *single);
        changed = true;
      } else {
        changes.push_back({c, 0});
      }
    });
  }
  if (changed) text.transform(changes);
}

}  // namespace

std::unique_ptr<const Normalizer> read_precompiled_normalizer(const ConfigReader& json) {
  constexpr std::string_view kKey = "precompiled_charsmap";
  const auto bytes = decode_base64(json.text(kKey));
  if (!bytes) json.refuse(kKey, "is not base64; expected the bytes of a charsmap in base64");
  try {
    return std::make_unique<PrecompiledNormalizer>(*bytes);
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(json.where(kKey), reason.what());
  }
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const auto value = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const auto group = text.substr(at, 4);
    std::size_t digits = 4;
    if (at + 4 == text.size()) {
      while (digits > 2 && group[digits - 1] == '=') --digits;
    }
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const int digit = i < digits ? value(group[i]) : 0;
      if (digit < 0) return std::nullopt;
      bits = bits << 6 | static_cast<std::uint32_t>(digit);
    }
    // Bits after the last byte must be zero, so that there is one spelling.
    if ((bits & ((1U << (8 * (4 - digits))) - 1)) != 0) return std::nullopt;
    for (std::size_t i = 0; i + 1 < digits; ++i) bytes += static_cast<char>(bits >> (16 - 8 * i) & 0xFF);
  }
  return bytes;
}

}  // namespace hooked::text
