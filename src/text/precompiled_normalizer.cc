#include "text/precompiled_normalizer.h"

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "text/charsmap.h"
#include "text/unicode.h"

namespace hooked::text {
namespace {

// Clusters of so many bytes and more are looked up character by character only.
constexpr std::size_t kLongCluster = 6;

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

// Takes the shortest rule that a cluster or a character begins with: that of the tokenizers package, which
// vocabularies in use were made with.
class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(Charsmap rules) : rules_(std::move(rules)) {}

  void apply(NormalizedString& text) const override;

 private:
  Charsmap rules_;
};

void PrecompiledNormalizer::apply(NormalizedString& text) const {
  std::vector<Change> changes;
  changes.reserve(text.text().size());
  bool changed = false;
  for (const auto cluster : graphemes(text.text())) {
    if (cluster.size() < kLongCluster) {
      if (const auto whole = rules_.shortest(cluster)) {
        append_replacement(changes, cluster, whole->replacement);
        changed = true;
        continue;
      }
    }
    for_each_character(cluster, [&](char32_t c, std::string_view bytes) {
      if (const auto single = rules_.shortest(bytes)) {
        append_replacement(changes, bytes, single->replacement);
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
    return std::make_unique<PrecompiledNormalizer>(Charsmap(*bytes));
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

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto group = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) text += i <= group.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

}  // namespace hooked::text
