// Writes the manual: hooked.1, and hooked-COMMAND.1 for each command, from the program's own tables.
// Usage: hooked-man FOLDER
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/version.h"
#include "options/option_table.h"
#include "options/parser.h"

namespace hooked::cli {
namespace {

// Text as roff shows it unchanged. Text in backticks is bold.
std::string roff(std::string_view text) {
  std::string out;
  bool bold = false, line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '`':
        bold = !bold;
        out += bold ? "\\fB" : "\\fR";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string head_of(const std::string& page, std::string_view summary) {
  std::string upper = page;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return fmt::format(".TH {} 1 \"\" \"hooked {}\" \"hooked\"\n.SH NAME\n{} \\- {}\n", roff(upper), version(),
                     roff(page), roff(summary));
}

// Names and value of an option, and what it does.
std::string entry_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("\\fB" + roff("-" + name) + "\\fR");
  for (const auto& name : option.get_lnames()) names.push_back("\\fB" + roff("--" + name) + "\\fR");
  if (option.get_positional()) names = {"\\fI" + roff(option.get_name()) + "\\fR"};
  const std::string word = option.get_positional() ? "" : option.get_option_text();
  const bool required = option.get_required() && !option.get_positional();
  return fmt::format(".TP\n{}{}\n{}\n", fmt::join(names, ", "),
                     word.empty() ? "" : " \\fI" + roff(word) + "\\fR",
                     roff(option.get_description() + (required ? " (required)" : "")));
}

std::string options_of(const CLI::App& app) {
  std::string text;
  const auto add = [&](const std::string& heading, const auto& wanted) {
    const auto options = app.get_options(wanted);
    if (options.empty()) return;
    text += ".SS " + roff(heading) + "\n";
    for (const CLI::Option* option : options) text += entry_of(*option);
  };
  add("Arguments", [](const CLI::Option* option) { return option->get_positional(); });
  for (const std::string& group : groups_in_order(app)) {
    add(group,
        [&](const CLI::Option* option) { return option->nonpositional() && option->get_group() == group; });
  }
  return text.empty() ? "" : ".SH OPTIONS\n" + text;
}

std::string examples_of(std::string_view command) {
  const auto help = fmt::format("`hooked {}{}--help`", command, command.empty() ? "" : " ");
  return fmt::format(
      ".SH EXAMPLES\n{}\n.PP\n.EX\n{}\n.EE\n",
      roff("The folder examples is share/hooked/examples of the installation; " + help + " shows its path."),
      roff(examples_text(command, "examples")));
}

std::string program_page(const CLI::App& app) {
  std::string text = head_of("hooked", app.get_description());
  text += ".SH SYNOPSIS\n.B hooked\n.I COMMAND\n[\\fIARGUMENTS\\fR]\n.SH DESCRIPTION\n";
  const auto notes = program_notes();
  for (std::size_t i = 0; i < notes.size(); ++i) text += (i > 0 ? ".PP\n" : "") + roff(notes[i]) + "\n";
  text += ".SH COMMANDS\n";
  for (const Command& command : commands())
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", command.name, roff(command.summary));
  text += options_of(app) + examples_of("") + ".SH SEE ALSO\n";
  std::vector<std::string> pages;
  for (const Command& command : commands())
    pages.push_back(fmt::format("\\fBhooked\\-{}\\fR(1)", command.name));
  return text +
         fmt::format("{}\n.PP\nThe documents of the installation begin with share/doc/hooked/README.md.\n",
                     fmt::join(pages, ",\n"));
}

std::string command_page(const CLI::App& part) {
  const std::string& name = part.get_name();
  std::string text = head_of("hooked-" + name, part.get_description());
  text += fmt::format(".SH SYNOPSIS\n.B hooked {}\n", name);
  for (const CLI::Option* option : part.get_options()) {
    if (option->get_positional()) text += fmt::format(".I {}\n", roff(option->get_name()));
  }
  text += "[\\fIOPTIONS\\fR]\n";
  return text + options_of(part) + examples_of(name) + ".SH SEE ALSO\n.BR hooked (1)\n";
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  if (!stream.flush()) throw std::runtime_error("cannot write " + file.string());
}

void write_manual(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const Parser parser("examples");
  write(folder / "hooked.1", program_page(parser.app));
  for (const auto& [part, reader] : parser.parts)
    write(folder / fmt::format("hooked-{}.1", part->get_name()), command_page(*part));
}

}  // namespace
}  // namespace hooked::cli

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("expected the folder to write to");
    hooked::cli::write_manual(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hooked-man: {}\n", error.what());
    return 1;
  }
}
