#include "cli/program.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "cli/help.h"
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "hooked/core/version.h"

namespace hooked::cli {
namespace {

enum ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2 };

// Errors are one line, whatever is in them.
std::string one_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

int report(ExitCode code, std::string_view program, std::string_view message) {
  fmt::print(stderr, "{}: {}\n", program, one_line(message));
  return code;
}

int report_usage(std::string_view program, std::string_view message) {
  return report(kUsage, program, fmt::format("{} (see `{} --help`)", one_line(message), program));
}

std::string did_you_mean(std::string_view text, const std::vector<std::string>& known) {
  return fmt::format("did you mean '{}'?", nearest(text, known));
}

std::string unknown_command(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& command : commands()) known.emplace_back(command.name);
  return fmt::format("there is no command '{}'; {}", name, did_you_mean(name, known));
}

std::string command_names() {
  std::vector<std::string_view> names;
  for (const auto& command : commands()) names.push_back(command.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// CLI11 says which arguments are left over; we say which option they are nearest to.
std::string unexpected_arguments(CLI::App& app, std::string_view what) {
  for (const auto& argument : app.remaining(true)) {
    if (argument.rfind("--", 0) != 0) continue;
    std::vector<std::string> known;
    for (const auto* option : app.get_options()) {
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    }
    const auto name = argument.substr(0, argument.find('='));
    return fmt::format("there is no option {}; {}", name, did_you_mean(name, known));
  }
  return std::string(what);
}

// CLI11's sentence, or ours where ours is clearer.
std::string usage_text(CLI::App& app, const CLI::ParseError& error) {
  const std::string_view what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unexpected_arguments(app, what);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && what.starts_with("--")) {
    return fmt::format("{} needs a value", what.substr(0, what.find(':')));
  }
  return std::string(what);
}

// Whatever went wrong in an action, as an exit code and a line on stderr.
int run_action(const Action& action, std::string_view program) {
  try {
    action();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw IoError("stdout", fmt::format("cannot write: {}", std::generic_category().message(errno)));
    }
    return kDone;
  } catch (const UsageError& error) {
    return report_usage(program, error.what());
  } catch (const CLI::ParseError& error) {
    return report_usage(program, error.what());
  } catch (const c10::Error& error) {
    return report(kFailed, program, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return report(kFailed, program, "out of memory; use a shorter input, a smaller --dtype or fewer --names");
  } catch (const std::exception& error) {
    return report(kFailed, program, error.what());
  } catch (...) {
    return report(kFailed, program, "failed for a reason unknown");
  }
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  CLI::App app("Transformers with every activation named, hookable and cacheable.", "hooked");
  app.set_version_flag("--version", fmt::format("hooked {} (LibTorch {})", version(), libtorch_version()));
  app.require_subcommand(1);
  app.formatter(help_format());
  app.footer(
      "`hooked COMMAND --help` lists a command's options. MODEL is a folder, or org/name[@revision] in the "
      "local\n"
      "Hugging Face cache; nothing is ever downloaded. Exit codes: 0 done, 1 failed, 2 wrong usage.");

  std::string program = "hooked";
  std::vector<std::pair<CLI::App*, Action>> parts;
  try {
    for (const auto& command : commands()) {
      auto* part = app.add_subcommand(std::string(command.name), std::string(command.summary));
      part->footer(fmt::format("Examples:\n  {}", command.example));
      parts.emplace_back(part, command.define(*part));
    }
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    for (auto& [part, action] : parts) {
      if (!part->parsed()) continue;
      program = fmt::format("hooked {}", part->get_name());
      return report_usage(program, usage_text(*part, error));
    }
    const std::string_view first = argc > 1 ? argv[1] : "";
    if (first.empty())
      return report_usage(program, fmt::format("which command? Expected one of {}", command_names()));
    return report_usage(program, first.front() == '-' ? error.what() : unknown_command(first));
  } catch (const std::exception& error) {
    return report(kFailed, program, error.what());
  }

  for (auto& [part, action] : parts) {
    if (part->parsed()) return run_action(action, fmt::format("hooked {}", part->get_name()));
  }
  return report_usage(program, fmt::format("which command? Expected one of {}", command_names()));
}

}  // namespace hooked::cli
