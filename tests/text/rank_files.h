#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace hooked::text {

inline std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * i) & 63];
  }
  return text;
}

/// The byte strings of a small tokenizer of ranks: all bytes, and `merged` more: "ab", "aab", "aaab", ...
inline std::string ranked_bytes(int rank) {
  if (rank < 256) return std::string(1, static_cast<char>(rank));
  return std::string(static_cast<std::size_t>(rank - 255), 'a') + "b";
}

/// The byte strings as a tiktoken file.
inline std::string rank_lines(int merged) {
  std::string lines;
  for (int rank = 0; rank < 256 + merged; ++rank)
    lines += fmt::format("{} {}\n", base64(ranked_bytes(rank)), rank);
  return lines;
}

/// The same as a tekken.json, after five special tokens.
inline std::string tekken_text(int merged) {
  std::string vocab;
  for (int rank = 0; rank < 256 + merged; ++rank) {
    vocab += fmt::format(R"({}{{"rank": {}, "token_bytes": "{}", "token_str": null}})", rank == 0 ? "" : ",",
                         rank, base64(ranked_bytes(rank)));
  }
  return fmt::format(
      R"({{"config": {{"pattern": "[a-z]+|[^a-z]+", "default_vocab_size": {}, "default_num_special_tokens": 5}}, )"
      R"("special_tokens": [{{"rank": 0, "token_str": "<unk>"}}, {{"rank": 1, "token_str": "<s>"}}], "vocab": [{}]}})",
      256 + merged + 5, vocab);
}

}  // namespace hooked::text
