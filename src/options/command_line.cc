#include "options/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/json.h"
#include "hooked/core/kernel_set.h"
#include "hooked/core/version.h"
#include "options/command.h"
#include "options/help.h"
#include "options/option_table.h"
#include "options/suggestions.h"

namespace hooked::cli {
namespace {

// Errors are one line, whatever they contain.
std::string one_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

// CLI11's sentence, or ours if it is clearer.
std::string usage_text(CLI::App& app, const CLI::ParseError& error) {
  const std::string_view what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unplaced_arguments(app);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && what.starts_with("--") &&
      what.ends_with("missing")) {
    return fmt::format("{} needs a value", what.substr(0, what.find(':')));
  }
  return std::string(what);
}

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

int print_answer(std::string_view program, std::string_view text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return kDone;
  return report(kFailed, program,
                fmt::format("[stdout] cannot write: {}", std::generic_category().message(errno)));
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

int report(ExitCode code, std::string_view program, std::string_view message) {
  fmt::print(stderr, "{}: {}\n", program, one_line(message));
  return code;
}

int report_usage(std::string_view program, std::string_view message) {
  return report(kUsage, program, fmt::format("{} (see `{} --help`)", one_line(message), program));
}

std::variant<int, CommandLine> read_command_line(int argc, const char* const* argv) {
  CLI::App app("Transformers with every activation named, hookable and cacheable.", "hooked");
  bool as_json = false;  // defined first, and so read first
  app.add_flag("--json", as_json, "with --version: as JSON, with the kernels in use");
  app.set_version_flag("--version", [&] { return version_text(as_json); });
  app.require_subcommand(1);
  app.formatter(help_format());
  app.footer(
      "`hooked COMMAND --help` lists a command's options. MODEL is a folder, a\n"
      "LoRA adapter, or org/name[@revision] in the local Hugging Face cache; nothing\n"
      "is ever downloaded.\n"
      "Ctrl-C ends cache, generate, patch and bench after the current step and leaves\n"
      "what is there; once more ends at once.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n\n"
      "Example:\n"
      "  hooked run examples/toy_model --text \"Then Mary and John went to\"");

  std::vector<std::pair<CLI::App*, Reader>> parts;
  const auto called = [&] {
    return std::find_if(parts.begin(), parts.end(), [](const auto& part) { return part.first->parsed(); });
  };
  try {
    for (const auto& command : commands()) {
      auto* part = app.add_subcommand(std::string(command.name), std::string(command.summary));
      part->footer(fmt::format("Examples:\n{}", command.examples));
      parts.emplace_back(part, command.define(*part));
      require_numbers_in_range(*part);
    }
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    if (const auto part = called(); part != parts.end()) {
      return report_usage(fmt::format("hooked {}", part->first->get_name()), usage_text(*part->first, error));
    }
    const std::string_view first = argc > 1 ? argv[1] : "";
    return report_usage("hooked", first.starts_with('-') ? error.what() : unknown_command(first));
  } catch (const UsageError& error) {
    return report_usage(fmt::format("hooked {}", called()->first->get_name()), error.what());
  } catch (const std::exception& error) {
    return report(kFailed, "hooked", error.what());
  }

  if (as_json) return report_usage("hooked", "--json in front of a command goes with --version alone");

  const auto part = called();
  std::string program = fmt::format("hooked {}", part->first->get_name());
  try {
    auto request = part->second();
    if (const auto* text = std::get_if<std::string>(&request)) return print_answer(program, *text);
    return CommandLine{program, std::get<CommandOptions>(std::move(request))};
  } catch (const UsageError& error) {
    return report_usage(program, error.what());
  } catch (const std::exception& error) {
    return report(kFailed, program, error.what());
  }
}

}  // namespace hooked::cli
