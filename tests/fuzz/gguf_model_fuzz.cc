// libFuzzer target: the bytes are a GGUF file with a model. Built and run by scripts/fuzz.sh;
// tests/loading/gguf_fuzz_test.cc runs the same property over a corpus in every test run.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/gguf_model_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const auto file =
      std::filesystem::temp_directory_path() / ("hooked-fuzz-" + std::to_string(::getpid()) + ".gguf");
  hooked::gguf_model_property(file, {reinterpret_cast<const char*>(bytes), size});
  return 0;
}
