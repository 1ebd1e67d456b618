// hooked-draw-goldens GOLDENS OUT: writes the model folders of tests/golden with the weights that are drawn.
#include <cstdlib>
#include <exception>
#include <iostream>

#include "tests/support/drawn.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: hooked-draw-goldens GOLDENS OUT\n";
    return 2;
  }
  try {
    hooked::write_model_folders(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "hooked-draw-goldens: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
