// libFuzzer target: the first byte chooses a valid tokenizer, the rest is a text. Built and run by
// scripts/fuzz.sh; tests/text/tokenizer_fuzz_test.cc runs the same property over a corpus in every test run.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/golden_tokenizers.h"
#include "tests/fuzz/tokenizer_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const auto tokenizers = hooked::golden_tokenizers();
  if (size == 0) return 0;
  const auto& chosen = tokenizers[bytes[0] % tokenizers.size()];
  hooked::encode_property(chosen.tokenizer, {reinterpret_cast<const char*>(bytes) + 1, size - 1});
  return 0;
}
