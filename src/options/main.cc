// The program `hooked`: answers what needs no model, and passes everything else to the engine's program.
// Loading LibTorch takes longer than most answers, so this program does not link it
// (docs/decisions/0029-a-program-in-two.md).
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <variant>

#include "options/command_line.h"

int main(int argc, char** argv) {
  using namespace hooked::cli;
  std::error_code problem;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", problem);
  std::error_code none;
  auto examples = (self.parent_path() / HOOKED_EXAMPLES).lexically_normal();
  if (problem || !std::filesystem::is_directory(examples, none)) examples = "examples";
  const auto line = read_command_line(argc, argv, examples);
  if (const auto* code = std::get_if<int>(&line)) return *code;

  const auto engine = (self.parent_path() / HOOKED_ENGINE).lexically_normal();
  if (!problem) {
    ::execv(engine.c_str(), argv);
    problem = {errno, std::generic_category()};
  }
  return report(
      kFailed, std::get<CommandLine>(line).program,
      fmt::format(
          "[{}] cannot be started: {}; expected the engine of this program there; install both together",
          engine.string(), problem.message()));
}
