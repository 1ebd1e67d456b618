#include "cli/program.h"

int main(int argc, char** argv) { return hooked::cli::run_program(argc, argv); }
