#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace hooked::text {

/// Upper and title case of a character: one to three characters (SpecialCasing.txt, without conditions).
/// lower_case() is in unicode.h.
std::vector<char32_t> upper_case(char32_t code_point);
std::vector<char32_t> title_case(char32_t code_point);

/// The lower case of the capital sigma at byte `at` of `text`, which depends on the characters around it.
char32_t lower_sigma(std::string_view text, std::size_t at);

bool is_cased(char32_t code_point) noexcept;      ///< Uppercase, Lowercase or of category Lt
bool is_letter(char32_t code_point) noexcept;     ///< category L
bool is_printable(char32_t code_point) noexcept;  ///< as Python's str.isprintable

}  // namespace hooked::text
