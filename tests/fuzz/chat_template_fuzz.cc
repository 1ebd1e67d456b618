// libFuzzer target: the bytes are a chat template.
// clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -DFMT_HEADER_ONLY -I. -Isrc -Iinclude with
// src/text/jinja/*.cc, src/text/{letter_case,unicode,unicode_differences}.cc and
// src/core/{error,json,json_cursor,utf8}.cc, -lutf8proc; LibTorch is not needed. tests/text/chat and
// tests/text/chat/templates are a corpus. tests/text/chat_fuzz_test.cc runs the same property over a corpus
// in every test run.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/chat_template_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hooked::chat_template_property({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
