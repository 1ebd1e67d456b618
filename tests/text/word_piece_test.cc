#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/text/word_model.h"
#include "text/model/model.h"

namespace hooked::text::word_piece_test {
namespace {

TEST(WordPiece, TakesTheLongestPiecesFromTheLeft) {
  const auto model =
      model_of(R"({"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "ab": 2, "##c": 3, "##cd": 4,
                                  "##d": 5}, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                                  "max_input_chars_per_word": 4})");
  EXPECT_EQ(encoded(*model, "abcd").ids, (Ids{2, 4}));
  EXPECT_TRUE(encoded(*model, "abcd").spans == (std::vector<TextSpan>{{0, 2}, {2, 4}}));
  EXPECT_EQ(encoded(*model, "abca").ids, (Ids{0}));   // a part without a piece makes the word unknown
  EXPECT_EQ(encoded(*model, "abcdd").ids, (Ids{0}));  // and so does a fifth character
}

TEST(WordPiece, RefusesWordsWhereTheVocabularyLacksTheUnknownToken) {
  const auto model = model_of(R"({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]",
                                  "continuing_subword_prefix": "##", "max_input_chars_per_word": 4})");
  EXPECT_THROW(encoded(*model, "b"), UnknownWord);
}

}  // namespace
}  // namespace hooked::text::word_piece_test
