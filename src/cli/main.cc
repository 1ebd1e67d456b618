#include <csignal>

#include "cli/interrupt.h"
#include "cli/program.h"
#include "options/command_line.h"

int main(int argc, char** argv) {
  using namespace hooked::cli;
  // Then exceeding a file size limit is an error that names the file, and does not end the program.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = run_program(argc, argv);
  if (code == kInterrupted) end_as_interrupted();
  return code;
}
