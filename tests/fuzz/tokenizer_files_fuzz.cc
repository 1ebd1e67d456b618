// libFuzzer target: the first byte chooses the name of a tokenizer's file, the others are its bytes. Built
// and run by scripts/fuzz.sh; tests/text/tokenizer_files_fuzz_test.cc runs the same property over a corpus in
// every test run.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>

#include "tests/fuzz/tokenizer_files_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static constexpr std::string_view kNames[] = {"tokenizer.model", "qwen.tiktoken", "tekken.json",
                                                "vocab.txt"};
  if (size == 0) return 0;
  hooked::tokenizer_file_property(std::filesystem::temp_directory_path(),
                                  kNames[bytes[0] % std::size(kNames)],
                                  {reinterpret_cast<const char*>(bytes) + 1, size - 1});
  return 0;
}
