// The program hooked-engine: what the commands do that need a model.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <variant>

#include "cli/actions.h"
#include "cli/interrupt.h"
#include "hooked/core/error.h"
#include "options/command.h"
#include "options/command_line.h"

namespace hooked::cli {
namespace {

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
}  // namespace hooked::cli

int main(int argc, char** argv) {
  using namespace hooked::cli;
  // Then exceeding a file size limit is an error that names the file, and does not end the program.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto read = read_command_line(argc, argv);
  if (const auto* code = std::get_if<int>(&read)) return *code;
  const int code = run_command(std::get<CommandLine>(read));
  if (code == kInterrupted) end_as_interrupted();
  return code;
}
