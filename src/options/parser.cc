#include "options/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include "core/json.h"
#include "core/shell_word.h"
#include "hooked/core/kernel_set.h"
#include "hooked/core/version.h"
#include "options/help.h"
#include "options/option_table.h"

namespace hooked::cli {
namespace {

constexpr std::string_view kProgramExample =
    "  hooked run examples/toy_model --text \"Then Mary and John went to\"";

std::string version_text(bool as_json) {
  if (!as_json) return fmt::format("hooked {} (LibTorch {})", version(), libtorch_version());
  Json sets = Json::array();
  for (const KernelSet set : kernel_sets()) sets.push_back(to_string(set));
  return Json{{"version", version()},
              {"libtorch", libtorch_version()},
              {"kernels", to_string(kernel_set())},
              {"kernel_sets", sets}}
      .dump();
}

template <typename Number>
std::optional<Number> number_of(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

// CLI11 alone replaces an out-of-range number by the nearest one of the option's type, and lets negative ones
// wrap around.
void require_numbers_in_range(CLI::App& part) {
  for (CLI::Option* option : part.get_options()) {
    const std::string type = option->get_type_name();
    const auto expect = [option](auto holds, std::string_view expected) {
      option->check(
          [holds, expected](const std::string& text) {
            return holds(text) ? std::string() : fmt::format("expected {}, got {}", expected, text);
          },
          "");
    };
    if (type.starts_with("UINT"))
      expect([](const std::string& text) { return number_of<std::uint64_t>(text).has_value(); },
             "an integer from 0 to 18446744073709551615");
    if (type.starts_with("INT"))
      expect([](const std::string& text) { return number_of<std::int64_t>(text).has_value(); },
             "an integer of 64 bits");
    if (type.starts_with("FLOAT"))
      expect([](const std::string& text) { return std::isfinite(number_of<double>(text).value_or(NAN)); },
             "a finite number");
  }
}

}  // namespace

std::vector<std::string> program_notes() {
  std::vector<std::string_view> early;
  for (const Command& command : commands()) {
    if (command.ends_early) early.push_back(command.name);
  }
  const auto last = early.back();
  early.pop_back();
  return {"`hooked COMMAND --help` lists a command's options.",
          fmt::format("MODEL is {}. Nothing is ever downloaded.", kModelForms),
          fmt::format(
              "Ctrl-C ends {} and {} after the current step, and what was computed until then is kept; once "
              "more ends at once.",
              fmt::join(early, ", "), last),
          "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."};
}

std::string examples_text(std::string_view command, const std::filesystem::path& examples) {
  std::string_view rest = kProgramExample;
  for (const Command& one : commands()) {
    if (one.name == command) rest = one.examples;
  }
  constexpr std::string_view kFolder = " examples/";
  std::string text;
  for (auto at = rest.find(kFolder); at != std::string_view::npos; at = rest.find(kFolder)) {
    text += fmt::format("{} {}/", rest.substr(0, at), shell_word(examples.native()));
    rest.remove_prefix(at + kFolder.size());
  }
  return text.append(rest);
}

Parser::Parser(const std::filesystem::path& examples)
    : app("Transformers with every activation named, hookable and cacheable.", "hooked") {
  app.add_flag("--json", as_json,
               "with --version: as JSON, with the kernels in use");  // first, and so read first
  app.set_version_flag("--version", [this] { return version_text(as_json); });
  app.require_subcommand(1);
  app.formatter(help_format());
  std::string footer;
  for (const std::string& note : program_notes()) footer += wrapped(note, kColumns) + "\n";
  app.footer(fmt::format("{}\nExample:\n{}", footer, examples_text("", examples)));
  for (const Command& command : commands()) {
    auto* part = app.add_subcommand(std::string(command.name), std::string(command.summary));
    part->get_help_ptr()->group(kCommonHeading);
    part->footer(fmt::format("Examples:\n{}", examples_text(command.name, examples)));
    parts.emplace_back(part, command.define(*part));
    require_numbers_in_range(*part);
  }
}

}  // namespace hooked::cli
