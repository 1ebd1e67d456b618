#include <csignal>

#include "cli/program.h"

int main(int argc, char** argv) {
  // Writing past a limit on file sizes is then an error that names the file, and not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  return hooked::cli::run_program(argc, argv);
}
