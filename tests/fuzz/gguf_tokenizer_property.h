#pragma once

#include <cstdint>
#include <string_view>

#include "io/gguf/gguf_header.h"
#include "loading/gguf/gguf_tokenizer.h"
#include "tests/fuzz/tokenizer_json_property.h"
#include "tests/io/gguf_bytes.h"

namespace hooked {

/// What must hold for any bytes taken as a GGUF file with a tokenizer: the file is refused with a
/// CheckpointError, the tokenizer is a note that says why, or it has the property of encode_property and no
/// id that the model has not. Returns whether there is a tokenizer that works; throws std::logic_error where
/// this does not hold.
inline bool gguf_tokenizer_property(std::string_view bytes) {
  constexpr std::int64_t kVocabulary = 1 << 16;
  GgufMetadata metadata;
  if (!accepts<CheckpointError>([&] { metadata = gguf_header_of(bytes, "input").metadata; })) return false;
  gguf_stop_tokens(metadata);
  ModelConfig config;
  config.d_vocab = kVocabulary;
  const TokenizerFiles read = read_gguf_tokenizer(metadata, config, "input");
  hold(!read.tokenizer || !read.problem, "a tokenizer, and a reason why there is none");
  hold(read.tokenizer || !read.problem || !read.notes.empty(), "a problem that is not reported");
  if (!read.tokenizer) return false;
  hold(read.files.contains("tokenizer.json"), "a tokenizer that cannot be saved");
  for (const std::string_view text : {"", "a", "Hello, world! It's 12345.",
                                      " \n a\u00e9e\u0301 \u4e2d\u6587 \U0001f600", "<s>\u2581##a<0x41>"}) {
    if (!encode_property(*read.tokenizer, text)) continue;
    for (const std::int64_t id : read.tokenizer->encode(text).ids)
      hold(id < kVocabulary, "an id that the model has not");
  }
  return true;
}

}  // namespace hooked
