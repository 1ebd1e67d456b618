#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hooked::cli {

/// Columns that everything printed for people fits in.
inline constexpr std::size_t kColumns = 80;

/// `text` in lines of at most so many characters, broken at blanks, and within words that are longer.
std::string wrapped(std::string_view text, std::size_t columns);

}  // namespace hooked::cli
