#include "text/decoders.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hooked::decoders_test {
namespace {

using Texts = std::vector<std::string>;

TEST(Decoders, StripTakesNoMoreThanThereIs) {
  const StripDecoder strip({.content = U'\u2581', .start = 1, .stop = 1});
  EXPECT_EQ(strip.apply({"\u2581", "\u2581\u2581a\u2581", "", "a"}), (Texts{"", "\u2581a", "", "a"}));
}

TEST(Decoders, ByteFallbackNeedsTwoDigits) {
  const ByteFallbackDecoder bytes;
  EXPECT_EQ(bytes.apply({"<0xC3>", "<0xa9>", "<0xZZ>", "<0x41>", "<0x>"}),
            (Texts{"\u00e9", "<0xZZ>", "A", "<0x>"}));
  EXPECT_EQ(bytes.apply({"<0xC3>", "<0x41>"}), (Texts{"\ufffd", "\ufffd"}));
}

TEST(Decoders, WordPieceCleansUp) {
  const WordPieceDecoder decoder({});
  EXPECT_EQ(decoder.apply({"do", "##g", "is", "n't", "."}), (Texts{"do", "g", " is", "n't", "."}));
}

TEST(Decoders, BpePutsABlankForEachSuffixButTheLast) {
  const BpeDecoder decoder("</w>");
  EXPECT_EQ(decoder.apply({"a</w>", "b", "c</w>"}), (Texts{"a ", "b", "c"}));
  EXPECT_TRUE(decoder.apply({}).empty());
}

TEST(Decoders, CtcJoinsRepeats) {
  const CtcDecoder decoder({});
  EXPECT_EQ(decoder.apply({"<pad>", "h", "h", "<pad>", "i", "|", "i"}), (Texts{"h", "i", " ", "i"}));
}

TEST(Decoders, MetaspaceLeavesTheFirstBlankOut) {
  EXPECT_EQ(MetaspaceDecoder({}).apply({"\u2581a", "\u2581b"}), (Texts{"a", " b"}));
  EXPECT_EQ(MetaspaceDecoder({.prepended = false}).apply({"\u2581a", "\u2581b"}), (Texts{" a", " b"}));
}

}  // namespace
}  // namespace hooked::decoders_test
