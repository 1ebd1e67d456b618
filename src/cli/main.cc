#include <csignal>

#include "cli/interrupt.h"
#include "cli/program.h"
#include "options/command_line.h"

int main(int argc, char** argv) {
  using namespace hooked::cli;
  // Writing past a limit on file sizes is then an error that names the file, and not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = run_program(argc, argv);
  if (code == kInterrupted) end_as_interrupted();
  return code;
}
