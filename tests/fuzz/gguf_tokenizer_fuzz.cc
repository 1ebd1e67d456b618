// libFuzzer target: the bytes are a GGUF file with a tokenizer. Built and run by scripts/fuzz.sh;
// tests/loading/gguf_fuzz_test.cc runs the same property over a corpus in every test run.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/gguf_tokenizer_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hooked::gguf_tokenizer_property({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
