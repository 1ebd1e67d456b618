// hooked-coverage FILE: writes docs/coverage.md.
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "tests/support/coverage.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: hooked-coverage FILE\n";
    return 2;
  }
  std::ofstream file(argv[1], std::ios::binary);
  file << hooked::coverage_document();
  file.close();
  if (!file) {
    std::cerr << "cannot write " << argv[1] << '\n';
    return EXIT_FAILURE;
  }
}
