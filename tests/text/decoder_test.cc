#include "text/pipeline/decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/text/json_of.h"

namespace hooked::text::decoder_test {
namespace {

using Texts = std::vector<std::string>;

Texts decoded(std::string_view json, Texts texts) {
  return read_decoder(json_of(json))->apply({std::move(texts)}).texts;
}

TEST(Decoder, StripTakesNoMoreThanThereIs) {
  EXPECT_EQ(decoded(R"({"type": "Strip", "content": "\u2581", "start": 1, "stop": 1})",
                    {"\u2581", "\u2581\u2581a\u2581", "", "a"}),
            (Texts{"", "\u2581a", "", "a"}));
}

TEST(Decoder, ByteFallbackNeedsTwoDigits) {
  constexpr auto* kJson = R"({"type": "ByteFallback"})";
  EXPECT_EQ(decoded(kJson, {"<0xC3>", "<0xa9>", "<0xZZ>", "<0x41>", "<0x>"}),
            (Texts{"\u00e9", "<0xZZ>", "A", "<0x>"}));
  EXPECT_EQ(decoded(kJson, {"<0xC3>", "<0x41>"}), (Texts{"\ufffd", "\ufffd"}));
}

TEST(Decoder, WordPieceCleansUp) {
  EXPECT_EQ(
      decoded(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})", {"do", "##g", "is", "n't", "."}),
      (Texts{"do", "g", " is", "n't", "."}));
}

TEST(Decoder, BpePutsABlankForEachSuffixButTheLast) {
  constexpr auto* kJson = R"({"type": "BPEDecoder", "suffix": "</w>"})";
  EXPECT_EQ(decoded(kJson, {"a</w>", "b", "c</w>"}), (Texts{"a ", "b", "c"}));
  EXPECT_TRUE(decoded(kJson, {}).empty());
}

TEST(Decoder, CtcJoinsRepeats) {
  EXPECT_EQ(decoded(R"({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true})",
                    {"<pad>", "h", "h", "<pad>", "i", "|", "i"}),
            (Texts{"h", "i", " ", "i"}));
}

TEST(Decoder, MetaspaceLeavesTheFirstBlankOut) {
  EXPECT_EQ(decoded(R"({"type": "Metaspace", "replacement": "\u2581"})", {"\u2581a", "\u2581b"}),
            (Texts{"a", " b"}));
  EXPECT_EQ(decoded(R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never"})",
                    {"\u2581a", "\u2581b"}),
            (Texts{" a", " b"}));
}

TEST(Decoder, ASequenceAppliesItsStepsInOrder) {
  EXPECT_EQ(decoded(R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"},
                        "content": " "}, {"type": "Fuse"}]})",
                    {"a_", "b_"}),
            (Texts{"a b "}));
}

}  // namespace
}  // namespace hooked::text::decoder_test
