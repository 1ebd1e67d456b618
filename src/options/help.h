#pragma once

#include <memory>
#include <vector>

namespace CLI {
class FormatterBase;
class Option;
}  // namespace CLI

namespace hooked::cli {

/// The layout of `--help`: one line of names and value per option, then its description, wrapped.
std::shared_ptr<CLI::FormatterBase> help_format();

/// Options that exclude each other; exactly one must be given.
using OneOf = std::vector<const CLI::Option*>;

/// Throws UsageError naming the options if none or several of them were given.
void require_one(const OneOf& options);

}  // namespace hooked::cli
