// libFuzzer target: the bytes are a GGUF file. Built and run by scripts/fuzz.sh; tests/io/gguf_fuzz_test.cc
// runs the same property over a corpus in every test run.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/gguf_header_property.h"

#ifndef HOOKED_FUZZ_IN_A_TEST
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hooked::gguf_header_property({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
#endif
