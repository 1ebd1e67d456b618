#include "loading/gguf/gguf_tokenizer_keys.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace hooked {
namespace {

constexpr std::string_view kFollowed[] = {"model",
                                          "pre",
                                          "tokens",
                                          "token_type",
                                          "token_type_count",
                                          "scores",
                                          "merges",
                                          "add_bos_token",
                                          "add_eos_token",
                                          "escape_whitespaces",
                                          "remove_extra_whitespaces",
                                          "precompiled_charsmap"};

}  // namespace

std::vector<std::string> unread_tokenizer_keys(const GgufMetadata& metadata) {
  const GgufValue* model = find_value(metadata, "tokenizer.ggml.model");
  const bool pieces = model != nullptr && !model->is_array() && model->text() == "llama";
  std::vector<std::string> unread;
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with(kTokenizerKeys)) continue;
    const auto name = std::string_view(key).substr(kTokenizerKeys.size());
    // Naming a special token does not change the ids of a text, and an option that is off has no effect.
    const bool harmless = name.ends_with("_token_id") || name.ends_with("_token_ids") ||
                          (!value.is_array() && value.boolean() == false);
    // Only SentencePiece's pieces begin with a blank.
    const bool followed =
        name == "add_space_prefix" ? pieces : std::ranges::find(kFollowed, name) != std::end(kFollowed);
    if (!harmless && !followed) unread.push_back(key);
  }
  return unread;
}

}  // namespace hooked
