#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>

#include "text/unicode/unicode_differences.h"

namespace hooked::text {
namespace {

utf8proc_category_t category(char32_t c) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Alphabetic is letters, letter numbers, some marks (all marks are word characters anyway) and, as the only
// symbols, these enclosed letters (PropList.txt, Other_Alphabetic).
bool is_enclosed_letter(char32_t c) noexcept {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool is_word(char32_t c) noexcept {
  if (const auto other = differing(UnicodeProperty::word, c)) return *other;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D || is_enclosed_letter(c);
  }
}

// The longest full decomposition of one character is 18.
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

// The composition of two characters, or nothing.
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
  std::size_t starter = 0;  // position in result of the character that the next ones may join
  bool has_starter = false;
  int last_class = 0;  // of the combining characters that did not join; 0 if there is none
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

// How many bytes at the beginning of `text` could begin some character; `text` itself does not begin with a
// character. At least one.
std::size_t begun_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto lead = byte(0);
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (lead < 0xE0 || lead > 0xF4 || byte(1) < low || byte(1) > high) return 1;
  return lead >= 0xF0 && byte(2) >= 0x80 && byte(2) <= 0xBF ? 3 : 2;
}

}  // namespace

std::optional<DecodedChar> first_char(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return DecodedChar{lead, 1};
  utf8proc_int32_t code_point = 0;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (bytes <= 0) return std::nullopt;
  return DecodedChar{static_cast<char32_t>(code_point), static_cast<std::size_t>(bytes)};
}

bool is_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_number(char32_t c) noexcept {
  if (c < 0x80) return c >= '0' && c <= '9';
  if (const auto other = differing(UnicodeProperty::number, c)) return *other;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) noexcept {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  if (const auto other = differing(UnicodeProperty::punctuation, c)) return *other;
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(char32_t c) noexcept {
  if (c < 0x300) return false;
  if (const auto other = differing(UnicodeProperty::mark, c)) return *other;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) noexcept {
  if (c < 0x300) return false;
  if (const auto other = differing(UnicodeProperty::nonspacing_mark, c)) return *other;
  return category(c) == UTF8PROC_CATEGORY_MN;
}

bool is_control_or_format(char32_t c) noexcept {
  if (const auto other = differing(UnicodeProperty::control_or_format, c)) return *other;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

CharClass char_class(char32_t c) noexcept {
  if (c >= 'a' && c <= 'z') return CharClass::word;  // most characters of most texts
  if (is_space(c)) return CharClass::space;
  return is_word(c) ? CharClass::word : CharClass::other;
}

std::size_t count_characters(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !continues_character(byte); }));
}

std::size_t last_character(std::string_view text) noexcept {
  auto begin = text.size() - 1;
  while (begin > 0 && continues_character(text[begin])) --begin;
  return begin;
}

std::string with_replacement_characters(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const auto rest = bytes.substr(at);
    if (const auto decoded = first_char(rest)) {
      text += rest.substr(0, decoded->bytes);
      at += decoded->bytes;
      continue;
    }
    // In a broken character, the bytes that could begin some character are replaced together.
    text += "\xEF\xBF\xBD";
    at += begun_bytes(rest);
  }
  return text;
}

std::size_t unfinished_bytes(std::string_view bytes) {
  for (std::size_t length = std::min<std::size_t>(bytes.size(), 3); length > 0; --length) {
    const auto end = bytes.substr(bytes.size() - length);
    const auto lead = static_cast<unsigned char>(end.front());
    const std::size_t whole = lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (length < whole && begun_bytes(end) == length) return length;
  }
  return 0;
}

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
  // The only character whose lower case is two characters (SpecialCasing.txt, without conditions).
  if (c == 0x130) return {U'i', 0x307};
  if (const auto other = differing_lower_case(c)) return {*other};
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))};
}

std::vector<std::string_view> graphemes(std::string_view text) {
  std::vector<std::string_view> clusters;
  utf8proc_int32_t state = 0;
  utf8proc_int32_t previous = -1;
  std::size_t begin = 0;
  std::size_t at = 0;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const auto current = static_cast<utf8proc_int32_t>(c);
    if (previous >= 0 && utf8proc_grapheme_break_stateful(previous, current, &state)) {
      clusters.push_back(text.substr(begin, at - begin));
      begin = at;
    }
    previous = current;
    at += bytes.size();
  });
  if (begin < text.size()) clusters.push_back(text.substr(begin));
  return clusters;
}

}  // namespace hooked::text
