#include "options/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "options/option_table.h"

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

  // As CLI11's own, with the groups in our order.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string text = make_description(app) + make_usage(app, std::move(name)) + make_positionals(app);
    for (const std::string& group : groups_in_order(*app)) {
      const auto shown = app->get_options(
          [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
      if (!shown.empty()) text += make_group(group, false, shown);
    }
    return text + make_subcommands(app, mode) + "\n" + make_footer(app);
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

std::vector<std::string> groups_in_order(const CLI::App& app) {
  std::vector<std::string> groups = app.get_groups();
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != kCommonHeading; });
  return groups;
}

std::shared_ptr<CLI::FormatterBase> help_format() { return std::make_shared<HelpFormat>(); }

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string lines;
  std::size_t length = 0;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    std::size_t passed = word.size() + 1;
    if (word.size() > columns) {
      passed = columns;
      while (passed > 1 && (static_cast<unsigned char>(word[passed]) & 0xC0) == 0x80)
        --passed;  // in a letter
      word = word.substr(0, passed);
    }
    if (length > 0 && length + 1 + word.size() > columns) {
      lines += '\n';
      length = 0;
    } else if (length > 0) {
      lines += ' ';
      ++length;
    }
    lines += word;
    length += word.size();
    text.remove_prefix(std::min(passed, text.size()));
  }
  return lines;
}

}  // namespace hooked::cli
