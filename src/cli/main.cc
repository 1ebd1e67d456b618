// The program hooked-engine: what the commands do that need a model.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>

#include "cli/actions.h"
#include "cli/interrupt.h"
#include "core/out_of_memory.h"
#include "hooked/core/error.h"
#include "options/command.h"
#include "options/command_line.h"

namespace hooked::cli {
namespace {

// What an error says, without a backtrace, and in our words where memory ran out outside of a run.
std::string text_of(const std::exception& error) {
  if (const auto said = out_of_memory(error)) {
    const MemoryUse use{.where = "memory", .cure = "use a shorter input, a smaller --dtype or fewer --names"};
    return memory_error(*said, use).what();
  }
  if (is_of_onednn(error)) {
    return fmt::format(
        "oneDNN, which computes products for LibTorch, {}; expected memory for its code; use a shorter "
        "input, fewer threads or more memory",
        error.what());
  }
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

// Runs a command; turns every error into an exit code and a line on stderr.
int run_command(const CommandLine& line) {
  const std::string_view program = line.program;
  try {
    std::visit([](const auto& options) { perform(options); }, line.options);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw IoError("stdout", fmt::format("cannot write: {}", std::generic_category().message(errno)));
    }
    return interrupted() ? kInterrupted : kDone;
  } catch (const Interrupted& interruption) {
    return report(kInterrupted, program, interruption.what());
  } catch (const UsageError& error) {
    return report_usage(program, error.what());
  } catch (const std::exception& error) {
    return report(kFailed, program, text_of(error));
  } catch (...) {
    return report(kFailed, program, "failed for a reason unknown");
  }
}

// Ends the program without LibTorch's static destructors: taking thousands of operators out of its tables is
// a third of a short command's time. The leak check of AddressSanitizer comes after them.
int leave(int code) {
#ifndef __SANITIZE_ADDRESS__
  std::fflush(nullptr);
  std::_Exit(code);
#endif
  return code;
}

}  // namespace
}  // namespace hooked::cli

int main(int argc, char** argv) {
  using namespace hooked::cli;
  // Then exceeding a file size limit is an error that names the file, and does not end the program.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto read = read_command_line(argc, argv);
  if (const auto* code = std::get_if<int>(&read)) return leave(*code);
  const int code = run_command(std::get<CommandLine>(read));
  if (code == kInterrupted) end_as_interrupted();
  return leave(code);
}
