#include "text/text_stream.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "tests/fuzz/golden_tokenizers.h"

namespace hooked::text::text_stream_test {
namespace {

std::vector<std::string> texts() {
  return {"the cat sat on the mat",   "  two  blanks ",
          "na\xC3\xAFve caf\xC3\xA9", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB ok",
          "\xE4\xBD\xA0\xE5\xA5\xBD", "a.b, c! (d)",
          "line\nbreak\ttab"};
}

// What the stream says of a text's tokens from `first` on, and what one decoding says.
struct Streamed {
  std::string pieces;
  std::string whole;
};

Streamed stream(const Tokenizer& tokenizer, const std::vector<std::int64_t>& ids, std::size_t first) {
  TextStream text(tokenizer, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first)});
  Streamed streamed;
  for (std::size_t i = first; i < ids.size(); ++i) streamed.pieces += text.add(ids[i]);
  streamed.pieces += text.finish();
  const DecodeOptions options{.skip_special_tokens = true};
  const std::string prompt = tokenizer.decode(std::span(ids).first(first), options);
  streamed.whole = tokenizer.decode(ids, options).substr(prompt.size());
  return streamed;
}

TEST(TextStream, PiecesAreTheWholeText) {
  int compared = 0;
  for (const GoldenTokenizer& golden : golden_tokenizers()) {
    for (const std::string& text : texts()) {
      std::vector<std::int64_t> ids;
      try {
        ids = golden.tokenizer.encode(text).ids;
      } catch (const TokenizerError&) {
        continue;  // some vocabularies have no unknown token
      }
      // A prompt that ends inside a character has a text of its own: there is nothing to compare with.
      for (std::size_t first = 0; first < ids.size(); ++first) {
        const std::string prompt =
            golden.tokenizer.decode(std::span(ids).first(first), {.skip_special_tokens = true});
        if (prompt.ends_with("\xEF\xBF\xBD") ||
            !golden.tokenizer.decode(ids, {.skip_special_tokens = true}).starts_with(prompt)) {
          continue;
        }
        const Streamed streamed = stream(golden.tokenizer, ids, first);
        EXPECT_EQ(streamed.pieces, streamed.whole) << golden.family << " '" << text << "' from " << first;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(TextStream, HoldsBackUnfinishedCharacters) {
  for (const GoldenTokenizer& golden : golden_tokenizers()) {
    if (golden.family != "gpt2") continue;
    const std::vector<std::int64_t> ids = golden.tokenizer.encode("\xF0\x9F\x92\xBB").ids;
    ASSERT_GT(ids.size(), 1u) << "the character is one token here";
    TextStream text(golden.tokenizer, {});
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(text.add(ids[i]), "");
    EXPECT_EQ(text.add(ids.back()), "\xF0\x9F\x92\xBB");
    // Begun inside a character, the stream tells all of it.
    TextStream inside(golden.tokenizer, {ids.front()});
    std::string rest;
    for (std::size_t i = 1; i < ids.size(); ++i) rest += inside.add(ids[i]);
    EXPECT_EQ(rest, "\xF0\x9F\x92\xBB");
    TextStream broken(golden.tokenizer, {});
    broken.add(ids.front());
    EXPECT_EQ(broken.finish(), "\xEF\xBF\xBD");
  }
}

}  // namespace
}  // namespace hooked::text::text_stream_test
