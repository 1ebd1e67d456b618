#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace CLI {
class FormatterBase;
}  // namespace CLI

namespace hooked::cli {

/// The layout of `--help`: one line of names and value per option, then its description, wrapped.
std::shared_ptr<CLI::FormatterBase> help_format();

/// Maximum width, in columns, of everything printed for people.
inline constexpr std::size_t kColumns = 80;

/// `text` in lines of at most `columns` characters, broken at blanks, and within words that are longer.
std::string wrapped(std::string_view text, std::size_t columns);

}  // namespace hooked::cli
