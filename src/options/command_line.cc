#include "options/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "options/command.h"
#include "options/option_table.h"
#include "options/parser.h"
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

int print_answer(std::string_view program, std::string_view text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return kDone;
  return report(kFailed, program,
                fmt::format("[stdout] cannot write: {}", std::generic_category().message(errno)));
}

}  // namespace

int report(ExitCode code, std::string_view program, std::string_view message) {
  fmt::print(stderr, "{}: {}\n", program, one_line(message));
  return code;
}

int report_usage(std::string_view program, std::string_view message) {
  return report(kUsage, program, fmt::format("{} (see `{} --help`)", one_line(message), program));
}

std::variant<int, CommandLine> read_command_line(int argc, const char* const* argv,
                                                 const std::filesystem::path& examples) {
  Parser parser(examples);
  CLI::App& app = parser.app;
  auto& parts = parser.parts;
  const auto called = [&] {
    return std::find_if(parts.begin(), parts.end(), [](const auto& part) { return part.first->parsed(); });
  };
  try {
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

  if (parser.as_json) return report_usage("hooked", "--json in front of a command goes with --version alone");

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
