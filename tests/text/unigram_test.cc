#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/text/word_model.h"
#include "text/model/model.h"

namespace hooked::text::unigram_test {
namespace {

TEST(Unigram, TakesTheCutWithTheHighestSum) {
  const auto model =
      model_of(R"({"type": "Unigram", "vocab": [["?", 0.0], ["a", -1.0], ["b", -1.0], ["ab", -1.5],
                                  ["ba", -3.0]], "unk_id": 0})");
  EXPECT_EQ(encoded(*model, "aba").ids, (Ids{3, 1}));
  EXPECT_TRUE(encoded(*model, "aba").spans == (std::vector<TextSpan>{{0, 2}, {2, 3}}));
  EXPECT_EQ(encoded(*model, "axya").ids, (Ids{1, 0, 1}));  // unknown characters side by side are one token
  EXPECT_EQ(model->id_without_spelling(), 0);
}

TEST(Unigram, TheLastOfEqualPiecesCounts) {
  const auto model =
      model_of(R"({"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0], ["a", -0.5]], "unk_id": 1})");
  EXPECT_EQ(encoded(*model, "ab").ids, (Ids{2, 1}));
}

TEST(Unigram, FallsBackToBytesAndRefusesWithoutUnknownToken) {
  constexpr auto* kVocab =
      R"({"type": "Unigram", "vocab": [["<0xC3>", -1.0], ["<0xA9>", -1.0], ["a", -1.0], ["?", -1.0]])";
  const auto bytes = model_of(kVocab + std::string(R"(, "unk_id": 3, "byte_fallback": true})"));
  EXPECT_EQ(encoded(*bytes, "a\u00e9").ids, (Ids{2, 0, 1}));
  EXPECT_THROW(encoded(*model_of(kVocab + std::string("}")), "x"), UnknownWord);
}

}  // namespace
}  // namespace hooked::text::unigram_test
