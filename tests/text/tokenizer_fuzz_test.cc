// The fuzz targets' properties over the golden tokenizers and small changes of them, and over random texts.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/golden_tokenizers.h"
#include "tests/fuzz/tokenizer_json_property.h"

namespace hooked::text::tokenizer_fuzz_test {
namespace {

// A valid file with one part of everything, small enough to change it everywhere.
constexpr std::string_view kSmall =
    R"({"version":"1.0","added_tokens":[{"id":5,"content":"<s>","special":true,"lstrip":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"Regex":"[a-c]+"},"content":"b"},
{"type":"Prepend","prepend":"_"},{"type":"Strip","strip_left":true,"strip_right":true},{"type":"Precompiled","precompiled_charsmap":"CAAAAAAAAAAAAAAAAA=="}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithNext","invert":false},
{"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":true},{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}]},
"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"?":3,"<0x41>":4},"merges":["a b"],"unk_token":"?","fuse_unk":true,"byte_fallback":true},
"post_processor":{"type":"RobertaProcessing","sep":["<s>",5],"cls":["a",0],"trim_offsets":true,"add_prefix_space":true},
"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Strip","content":"a","start":1,"stop":1},{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}]}})";

TEST(TokenizerFuzz, TheCorpusIsAccepted) {
  EXPECT_TRUE(tokenizer_json_property(kSmall));
  for (const auto& golden : golden_tokenizers())
    EXPECT_TRUE(tokenizer_json_property(golden.json)) << golden.family;
}

TEST(TokenizerFuzz, CutAtEveryLength) {
  for (std::size_t length = 0; length < kSmall.size(); ++length) {
    EXPECT_FALSE(tokenizer_json_property(kSmall.substr(0, length))) << length;
  }
}

TEST(TokenizerFuzz, EveryByteChangedToAFewOthers) {
  std::size_t accepted = 0;
  std::size_t tried = 0;
  for (std::size_t i = 0; i < kSmall.size(); ++i) {
    for (const char value : {'"', '{', ']', '0', 'a', '_', '\\', '\xC3'}) {
      std::string changed(kSmall);
      changed[i] = value;
      accepted += tokenizer_json_property(changed) ? 1 : 0;
      ++tried;
    }
  }
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, tried / 2);
}

TEST(TokenizerFuzz, RandomEdits) {
  std::mt19937 random(1);
  const std::string tokens = "{}[]:,\"\\u0 19.-eE\n\xE2\x80tf*+?()|^$";
  for (int run = 0; run < 4000; ++run) {
    std::string json(kSmall);
    for (auto edits = random() % 4 + 1; edits > 0; --edits) {
      const auto at = random() % (json.size() + 1);
      switch (random() % 3) {
        case 0:
          json.insert(at, 1, tokens[random() % tokens.size()]);
          break;
        case 1:
          json.erase(at, random() % 5);
          break;
        default:
          json.insert(at, json.substr(random() % json.size(), random() % 40));
      }
    }
    ASSERT_NO_THROW(tokenizer_json_property(json)) << json;
  }
}

TEST(EncodeFuzz, RandomTexts) {
  std::mt19937 random(2);
  const auto tokenizers = golden_tokenizers();
  const std::vector<std::string> parts = {
      "a",      "The ",    " ",      "\n",         "\r\n", "'s",           "12",
      "\u00e9", "e\u0301", "\u4e2d", "\U0001f600", "<s>",  "<mask>",       "\u2581",
      "\u0130", "\ufb01",  "##",     "\xE2\x82",   "\xFF", "\xED\xA0\x80", std::string(1, '\0')};
  std::size_t accepted = 0;
  constexpr int kRuns = 4000;
  for (int run = 0; run < kRuns; ++run) {
    std::string text;
    const auto kinds = random() % 4 == 0 ? parts.size() : parts.size() - 4;  // mostly valid UTF-8
    for (auto count = random() % 12; count > 0; --count) text += parts[random() % kinds];
    const auto& golden = tokenizers[static_cast<std::size_t>(run) % tokenizers.size()];
    bool valid = false;
    ASSERT_NO_THROW(valid = encode_property(golden.tokenizer, text)) << golden.family << ": " << text;
    accepted += valid ? 1 : 0;
    if (valid && golden.family == "gpt2") {
      EXPECT_EQ(golden.tokenizer.decode(golden.tokenizer.encode(text).ids), text);
    }
  }
  EXPECT_GT(accepted, static_cast<std::size_t>(kRuns) / 2);
  EXPECT_LT(accepted, static_cast<std::size_t>(kRuns));
}

}  // namespace
}  // namespace hooked::text::tokenizer_fuzz_test
