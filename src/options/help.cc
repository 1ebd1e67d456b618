#include "options/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <string_view>

#include "options/command.h"
#include "options/wrap.h"

namespace hooked::cli {
namespace {

constexpr std::size_t kNameColumn = 26;
constexpr std::size_t kDescriptionColumns = kColumns - kNameColumn;

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() { column_width(kNameColumn); }

  std::string make_subcommand(const CLI::App* command) const override {
    std::stringstream out;
    CLI::detail::format_help(out, command->get_name(),
                             wrapped(command->get_description(), kDescriptionColumns), kNameColumn);
    return out.str();
  }

  // The value's name alone: the description says the rest.
  std::string make_option_opts(const CLI::Option* option) const override {
    const auto text = option->get_option_text();
    return text.empty() ? text : " " + text;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const auto text = option->get_description();
    return wrapped(option->get_required() && !option->get_positional() ? text + " (required)" : text,
                   kDescriptionColumns);
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() { return std::make_shared<HelpFormat>(); }

void require_one(const OneOf& options) {
  std::vector<std::string> names;
  std::vector<std::string> given;
  for (const auto* option : options) {
    names.push_back(option->get_name());
    if (option->count() > 0) given.push_back(option->get_name());
  }
  if (given.size() == 1) return;
  throw UsageError(fmt::format("expected one of {}, got {}", fmt::join(names, ", "),
                               given.empty() ? "none" : fmt::format("{}", fmt::join(given, " and "))));
}

}  // namespace hooked::cli
