// libFuzzer target: the first byte says whether the rest is a pickle or a whole zip checkpoint. Built and run
// by scripts/fuzz.sh; tests/io/zip_checkpoint_fuzz_test.cc runs the same properties over a corpus in every
// test run.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/zip_checkpoint_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 2 == 0) {
    hooked::pickle_property(rest);
  } else {
    hooked::zip_checkpoint_property(rest);
  }
  return 0;
}
