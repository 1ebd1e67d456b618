#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "hooked/text/tokenizer.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/tokenizer_json_property.h"

namespace hooked {

/// What must hold for any bytes in a file of the name `file` (`tokenizer.model`, `tekken.json`, `vocab.txt`,
/// ...): they are refused with a TokenizerError, or the tokenizer that they describe has the property of
/// encode_property. The file is written into `folder`. Returns whether they were accepted.
inline bool tokenizer_file_property(const std::filesystem::path& folder, std::string_view file,
                                    std::string_view bytes) {
  write_bytes(folder / file, bytes);
  return accepts<TokenizerError>([&] {
    const auto tokenizer = Tokenizer::load(folder / file);
    for (const std::string_view text : {"", "a", " ab  ab ", "Hello, world! <s>\u2581##a<0x41>",
                                        " \n a\u00e9e\u0301 \u4e2d\u6587 \U0001f600"}) {
      encode_property(tokenizer, text);
    }
  });
}

/// The same of an input whose first byte chooses the name.
inline bool tokenizer_files_property(std::string_view input) {
  constexpr std::array kNames = {"tokenizer.model", "qwen.tiktoken", "tekken.json", "vocab.txt"};
  const auto [number, bytes] = chosen(input, kNames.size());
  return tokenizer_file_property(scratch().path(), kNames.at(number), bytes);
}

}  // namespace hooked
