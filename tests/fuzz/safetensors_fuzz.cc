// libFuzzer target: the first byte is the number of data bytes after the header, the rest the header's text.
// Built and run by scripts/fuzz.sh; tests/io/safetensors_fuzz_test.cc runs the same property over a corpus in
// every test run.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/safetensors_header_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view header(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  hooked::safetensors_header_property(header, 8 + header.size() + bytes[0]);
  return 0;
}
