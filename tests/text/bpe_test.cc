#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/text/word_model.h"
#include "text/model/model.h"

namespace hooked::text::bpe_test {
namespace {

TEST(Bpe, JoinsByRankAndFallsBackToBytes) {
  const auto model =
      model_of(R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "bc": 3, "ab": 4, "<0xC3>": 5,
                                  "<0xA9>": 6, "?": 7}, "merges": ["b c", "a b"], "byte_fallback": true,
                                  "unk_token": "?"})");
  EXPECT_EQ(encoded(*model, "abc").ids, (Ids{0, 3}));
  EXPECT_TRUE(encoded(*model, "abc").spans == (std::vector<TextSpan>{{0, 1}, {1, 3}}));
  EXPECT_EQ(encoded(*model, "ab\u00e9").ids, (Ids{4, 5, 6}));
  EXPECT_EQ(encoded(*model, "ax").ids, (Ids{0, 7}));  // not all bytes of x have pieces
}

TEST(Bpe, UnknownCharactersAreFusedOrLeftOut) {
  constexpr auto* kVocab = R"({"type": "BPE", "vocab": {"a": 0, "?": 1}, "merges": [])";
  EXPECT_EQ(encoded(*model_of(kVocab + std::string("}")), "xaxx").ids, (Ids{0}));
  EXPECT_EQ(encoded(*model_of(kVocab + std::string(R"(, "unk_token": "?"})")), "xaxx").ids,
            (Ids{1, 0, 1, 1}));
  const auto fused = model_of(kVocab + std::string(R"(, "unk_token": "?", "fuse_unk": true})"));
  EXPECT_EQ(encoded(*fused, "xaxx").ids, (Ids{1, 0, 1}));
}

TEST(Bpe, PrefixAndSuffixMarkPlacesInAWord) {
  const auto model = model_of(R"({"type": "BPE", "vocab": {"a": 0, "##b": 1, "##b</w>": 2, "ab</w>": 3},
                                  "merges": ["a ##b</w>"], "continuing_subword_prefix": "##",
                                  "end_of_word_suffix": "</w>"})");
  EXPECT_EQ(encoded(*model, "ab").ids, (Ids{3}));
  EXPECT_EQ(encoded(*model, "abb").ids, (Ids{0, 1, 2}));
}

TEST(Bpe, IgnoresMergesOfWordsThatArePieces) {
  const auto model = model_of(R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [],
                                  "ignore_merges": true})");
  EXPECT_EQ(encoded(*model, "ab").ids, (Ids{2}));
  EXPECT_EQ(encoded(*model, "aba").ids, (Ids{0, 1, 0}));
}

// Dropped characters would shift offsets, so bytes are read only with an unknown token or with all 256
// bytes.
TEST(Bpe, ReadsBytesWhereTheVocabularyAllowsIt) {
  constexpr auto* kVocab = R"({"type": "BPE", "vocab": {"\u00c3": 0, "\u00a9": 1}, "merges": [])";
  const auto unknown = model_of(kVocab + std::string(R"(, "unk_token": "x"})"), WordSpelling::bytes);
  EXPECT_EQ(unknown->spelling(), WordSpelling::bytes);
  EXPECT_EQ(encoded(*unknown, "\u00e9").ids, (Ids{0, 1}));
  EXPECT_EQ(model_of(kVocab + std::string("}"), WordSpelling::bytes)->spelling(), WordSpelling::characters);
}

}  // namespace
}  // namespace hooked::text::bpe_test
