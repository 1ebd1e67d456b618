#include "text/unicode.h"

#include <utf8proc.h>

namespace hooked {
namespace {

bool is_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Alphabetic is letters, letter numbers, some marks (all marks are word characters anyway) and, alone among
// the symbols, these enclosed letters (PropList.txt, Other_Alphabetic).
bool is_enclosed_letter(char32_t c) noexcept {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool is_word(char32_t c) noexcept {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
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

CharClass char_class(char32_t c) noexcept {
  if (c >= 'a' && c <= 'z') return CharClass::word;  // most characters of most texts
  if (is_space(c)) return CharClass::space;
  return is_word(c) ? CharClass::word : CharClass::other;
}

std::optional<std::size_t> first_invalid_byte(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const auto decoded = first_char(text.substr(at));
    if (!decoded) return at;
    at += decoded->bytes;
  }
  return std::nullopt;
}

}  // namespace hooked
