#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/unicode_differences.h"

namespace hooked {
namespace {

utf8proc_category_t category(char32_t c) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Alphabetic is letters, letter numbers, some marks (all marks are word characters anyway) and, alone among
// the symbols, these enclosed letters (PropList.txt, Other_Alphabetic).
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

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | (c >> 6));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | (c >> 18));
    text += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::optional<std::size_t> first_invalid_byte(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const auto decoded = first_char(text.substr(at));
    if (!decoded) return at;
    at += decoded->bytes;
  }
  return std::nullopt;
}

std::size_t count_characters(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
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
    // Of a broken character, the bytes that some character could begin with are replaced together.
    const auto byte = [&](std::size_t i) {
      return i < rest.size() ? static_cast<unsigned char>(rest[i]) : 0U;
    };
    const auto lead = byte(0);
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    std::size_t length = 1;
    if (lead >= 0xE0 && lead <= 0xF4 && byte(1) >= low && byte(1) <= high) {
      length = lead >= 0xF0 && byte(2) >= 0x80 && byte(2) <= 0xBF ? 3 : 2;
    }
    text += "\xEF\xBF\xBD";
    at += length;
  }
  return text;
}

}  // namespace hooked
