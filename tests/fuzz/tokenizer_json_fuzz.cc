// libFuzzer target: the bytes are a tokenizer.json. Built and run by scripts/fuzz.sh;
// tests/text/tokenizer_fuzz_test.cc runs the same property over a corpus in every test run.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/tokenizer_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hooked::tokenizer_json_property({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
