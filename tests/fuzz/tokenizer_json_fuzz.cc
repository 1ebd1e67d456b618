// libFuzzer target: the bytes are a tokenizer.json.
// clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -DFMT_HEADER_ONLY -I. -Isrc -Iinclude with
// all of src/text, src/core/{config_reader,error,json,json_cursor,name_list,parse_integer,utf8}.cc and
// src/io/{file,path_text}.cc, -lonig -lutf8proc; LibTorch is not needed.
// tests/text/tokenizer_fuzz_test.cc runs the same property over a corpus in every test run.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/tokenizer_property.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hooked::tokenizer_json_property({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
