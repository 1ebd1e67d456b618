#include "text/normalization_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "text/unicode.h"
#include "text/unicode_differences.h"

namespace hooked {
namespace {

// Longest full decomposition of one character is 18.
constexpr std::size_t kDecomposed = 32;

struct Decomposed {
  char32_t character;
  std::int32_t change;
  int combining_class;
};

int combining_class(char32_t c) noexcept {
  if (c < 0x300 || differing(UnicodeProperty::combining_class, c)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

bool has_no_decomposition(char32_t c, bool compatible) noexcept {
  return c < 0xA0 || differing(compatible ? UnicodeProperty::compatible_decomposition
                                          : UnicodeProperty::canonical_decomposition,
                               c)
                         .has_value();
}

// Full decomposition in canonical order. A character's first part replaces it, the others are new.
std::vector<Decomposed> decompose(std::string_view text, bool compatible) {
  std::vector<Decomposed> result;
  result.reserve(text.size());
  std::size_t marks = 0;  // where the run of combining characters at the end begins
  const auto sort_marks = [&] {
    std::stable_sort(
        result.begin() + static_cast<std::ptrdiff_t>(marks), result.end(),
        [](const Decomposed& a, const Decomposed& b) { return a.combining_class < b.combining_class; });
  };
  const auto add = [&](char32_t c, std::int32_t change) {
    const int order = combining_class(c);
    if (order == 0) {
      if (result.size() > marks + 1) sort_marks();
      marks = result.size() + 1;
    }
    result.push_back({c, change, order});
  };
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  for_each_character(text, [&](char32_t c, std::string_view) {
    if (has_no_decomposition(c, compatible)) return add(c, 0);
    std::array<utf8proc_int32_t, kDecomposed> parts;
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      add(static_cast<char32_t>(parts[static_cast<std::size_t>(i)]), i == 0 ? 0 : 1);
    }
  });
  if (result.size() > marks + 1) sort_marks();
  return result;
}

// The character that two compose to, or nothing.
std::optional<char32_t> compose(char32_t first, char32_t second) noexcept {
  if (second < 0x300) return std::nullopt;
  std::array<utf8proc_int32_t, 2> pair = {static_cast<utf8proc_int32_t>(first),
                                          static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (utf8proc_normalize_utf32(pair.data(), 2, options) != 1) return std::nullopt;
  const auto composed = static_cast<char32_t>(pair[0]);
  if (differing(UnicodeProperty::canonical_decomposition, composed)) return std::nullopt;
  return composed;
}

std::vector<Change> recompose(std::span<const Decomposed> parts) {
  std::vector<Change> result;
  result.reserve(parts.size());
  std::size_t starter = 0;  // where in result the character stands that the next ones may join
  bool has_starter = false;
  int last_class = 0;  // of the combining characters that did not join; 0 while there is none
  for (const auto& [character, change, order] : parts) {
    if (has_starter && (last_class == 0 || last_class < order)) {
      if (const auto composed = compose(result[starter].character, character)) {
        result[starter].character = *composed;
        result[starter].change += change - 1;
        continue;
      }
    }
    if (order == 0) {
      starter = result.size();
      has_starter = true;
    }
    last_class = order;
    result.push_back({character, change});
  }
  return result;
}

}  // namespace

std::vector<Change> normalized(std::string_view text, NormalizationForm form) {
  const bool compatible = form == NormalizationForm::nfkc || form == NormalizationForm::nfkd;
  const auto parts = decompose(text, compatible);
  if (form == NormalizationForm::nfc || form == NormalizationForm::nfkc) return recompose(parts);
  std::vector<Change> result;
  result.reserve(parts.size());
  for (const auto& part : parts) result.push_back({part.character, part.change});
  return result;
}

std::vector<char32_t> lower_case(char32_t c) {
  // The one character whose lower case is two (SpecialCasing.txt, without conditions).
  if (c == 0x130) return {U'i', 0x307};
  if (const auto other = differing_lower_case(c)) return {*other};
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))};
}

}  // namespace hooked
