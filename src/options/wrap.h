#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hooked::cli {

/// Maximum width, in columns, of everything printed for people.
inline constexpr std::size_t kColumns = 80;

/// `text` in lines of at most `columns` characters, broken at blanks, and within words that are longer.
std::string wrapped(std::string_view text, std::size_t columns);

}  // namespace hooked::cli
