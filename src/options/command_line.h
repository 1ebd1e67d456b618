#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "options/command_options.h"

namespace hooked::cli {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kInterrupted = 130,  ///< shells report this for a program that SIGINT ended
};

/// A call of the program that is to be executed.
struct CommandLine {
  std::string program;  ///< `hooked run`: the prefix of errors
  CommandOptions options;
};

/// Reads the arguments of a call. If they ask for help, the version or something that needs no engine, or if
/// they are wrong, the answer is written here, to stdout or as one line to stderr, and the exit code is
/// returned. Loads nothing and does not throw. Help shows its examples with the path of the folder
/// `examples`, in which toy_model is.
std::variant<int, CommandLine> read_command_line(int argc, const char* const* argv,
                                                 const std::filesystem::path& examples = "examples");

/// Writes `PROGRAM: MESSAGE` to stderr as one line and returns the code.
int report(ExitCode code, std::string_view program, std::string_view message);

/// The same for a wrong command line, with a hint where its options are listed. Returns kUsage.
int report_usage(std::string_view program, std::string_view message);

}  // namespace hooked::cli
