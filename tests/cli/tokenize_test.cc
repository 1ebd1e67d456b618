#include "tests/cli/cli_fixture.h"

namespace hooked {
namespace {

class TokenizeTest : public CliTest {};

TEST_F(TokenizeTest, GivesIdsPiecesAndOffsets) {
  write_tokenizer("words");
  const auto want = parse_json(
      R"({"ids": [3, 1, 0, 4], "pieces": ["w3", "<unk>", "<bos>", "w4"], "offsets": [[0, 2], [3, 5], [6, 11], [12, 14]]})",
      {});
  const std::string text = "w3 \u00e9 <bos> w4";
  EXPECT_EQ(succeed({"tokenize", path("words"), "--text", text, "--json"}).json(), want);
  EXPECT_EQ(succeed({"tokenize", path("words/tokenizer.json"), "--text", text, "--json"}).json(), want);
  EXPECT_NE(succeed({"tokenize", path("words"), "--text", text}).out.find("<unk>"), std::string::npos);
}

TEST_F(TokenizeTest, AFileOfTextsGivesAnArray) {
  write_tokenizer("words");
  write("texts.json", R"(["w2", "", "w3 w4"])");
  const auto list = succeed({"tokenize", path("words"), "--texts-file", path("texts.json"), "--json"}).json();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["ids"], Json::array({2}));
  EXPECT_EQ(list[1]["ids"], Json::array());
  EXPECT_EQ(list[2]["ids"], Json::array({3, 4}));
}

TEST_F(TokenizeTest, Decodes) {
  write_tokenizer("words");
  EXPECT_EQ(succeed({"tokenize", path("words"), "--decode", "0,5,6", "--json"}).json()["text"],
            "<bos> w5 w6");
  EXPECT_EQ(succeed({"tokenize", path("words"), "--decode", "5"}).out, "w5\n");
  expect_failure({"tokenize", path("words"), "--decode", "5,11"}, 1, "ids[1]");
}

TEST_F(TokenizeTest, FailuresSayWhatIsMissing) {
  expect_failure({"tokenize", model(), "--text", "a"}, 1, "tokenizer.json");
  write_tokenizer("words");
  write("texts.json", R"(["w2", 3])");
  expect_failure({"tokenize", path("words"), "--texts-file", path("texts.json")}, 1, "item 1 is an integer");
  expect_failure({"tokenize", path("words")}, 2, "--text");
}

}  // namespace
}  // namespace hooked
