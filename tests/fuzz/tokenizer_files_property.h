#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include "hooked/core/error.h"
#include "hooked/text/tokenizer.h"
#include "tests/fuzz/tokenizer_property.h"

namespace hooked {

/// What must hold for any bytes in a file of the name `file` (`tokenizer.model`, `tekken.json`, `vocab.txt`,
/// ...): they are refused with a TokenizerError, or the tokenizer that they describe has the property of
/// encode_property. The file is written into `folder`. Returns whether they were accepted.
inline bool tokenizer_file_property(const std::filesystem::path& folder, std::string_view file,
                                    std::string_view bytes) {
  std::ofstream(folder / file, std::ios::binary) << bytes;
  try {
    const auto tokenizer = Tokenizer::load(folder / file);
    for (const std::string_view text : {"", "a", " ab  ab ", "Hello, world! <s>\u2581##a<0x41>",
                                        " \n a\u00e9e\u0301 \u4e2d\u6587 \U0001f600"}) {
      encode_property(tokenizer, text);
    }
    return true;
  } catch (const TokenizerError&) {
    return false;
  }
}

}  // namespace hooked
