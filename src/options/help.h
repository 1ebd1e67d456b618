#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class FormatterBase;
class Option;
}  // namespace CLI

namespace hooked::cli {

/// How `--help` is laid out: one line of names and value per option, then its description, wrapped.
std::shared_ptr<CLI::FormatterBase> help_format();

/// The columns of what the program writes for people.
inline constexpr std::size_t kColumns = 80;

/// A text in lines of at most so many columns, broken between words, and within those that are longer.
std::string wrapped(std::string_view text, std::size_t columns);

/// Options of which exactly one must be given.
using OneOf = std::vector<const CLI::Option*>;

/// Throws UsageError naming the options when none or several of them were given.
void require_one(const OneOf& options);

}  // namespace hooked::cli
