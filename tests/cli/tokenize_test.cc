#include "tests/cli/cli_fixture.h"

namespace hooked::tokenize_test {
namespace {

class TokenizeTest : public CliTest {};

TEST_F(TokenizeTest, GivesIdsPiecesAndOffsets) {
  write_tokenizer("words");
  const auto want = parse_json(
      R"({"text": "w3 \u00e9 <bos> w4", "ids": [0, 3, 1, 0, 4], "pieces": ["<bos>", "w3", "<unk>", "<bos>", "w4"], "offsets": [[0, 0], [0, 2], [3, 5], [6, 11], [12, 14]]})",
      {});
  const std::string text = "w3 \u00e9 <bos> w4";
  EXPECT_EQ(succeed({"tokenize", path("words"), "--text", text, "--json"}).json()["rows"][0], want);
  EXPECT_EQ(succeed({"tokenize", path("words/tokenizer.json"), "--text", text, "--json"}).json()["rows"][0],
            want);
  EXPECT_NE(succeed({"tokenize", path("words"), "--text", text}).out.find("<unk>"), std::string::npos);
}

// A table counts as --positions does, with the tokens that a run puts in front.
TEST_F(TokenizeTest, PositionsAreThoseOfARun) {
  write_tokenizer();
  const std::string in_front = "       0   0  <bos>  none: a run puts it in front\n";
  const auto table = [&](const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"tokenize", model(), "--text", "w3 w4"};
    words.insert(words.end(), more.begin(), more.end());
    return succeed(words).out;
  };
  EXPECT_NE(table().find(in_front), std::string::npos) << table();
  EXPECT_NE(table().find("       2   4  w4     3-5"), std::string::npos) << table();
  const Json json_of_it = succeed({"tokenize", model(), "--text", "w3 w4", "--json"}).json();
  EXPECT_EQ(json_of_it["rows"][0]["ids"], Json::array({0, 3, 4}));
  EXPECT_EQ(json_of_it["rows"][0]["pieces"], Json::array({"<bos>", "w3", "w4"}));
  EXPECT_EQ(json_of_it["around"]["before"], Json::parse(R"([{"id": 0, "token": "<bos>"}])"));
  EXPECT_EQ(json_of_it["around"], succeed({"run", model(), "--text", "w3 w4", "--json"}).json()["around"]);
  EXPECT_EQ(table({"--add-special-tokens"}).find("in front"), std::string::npos);
  // Where no file speaks of it, the model decides; a tokenizer alone has no runs.
  std::string json = read("model/tokenizer.json");
  const auto begin = json.find(R"("post_processor")"), end = json.find(R"("decoder")");
  write("model/tokenizer.json", json.erase(begin, end - begin));
  EXPECT_NE(table().find(in_front), std::string::npos) << table();
  const auto alone = succeed({"tokenize", path("model/tokenizer.json"), "--text", "w3 w4"}).out;
  EXPECT_NE(alone.find("       0   3  w3     0-2"), std::string::npos) << alone;
}

TEST_F(TokenizeTest, AFileOfTextsGivesAnArray) {
  write_tokenizer("words");
  write("texts.json", R"(["w2", "", "w3 w4"])");
  const auto list =
      succeed({"tokenize", path("words"), "--texts-file", path("texts.json"), "--json"}).json()["rows"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["ids"], Json::array({0, 2}));
  EXPECT_EQ(list[1]["ids"], Json::array({0}));
  EXPECT_EQ(list[2]["ids"], Json::array({0, 3, 4}));
}

TEST_F(TokenizeTest, TakesTheOlderPairAndAddsSpecialTokens) {
  std::filesystem::create_directories(path("pair"));
  write("pair/vocab.json", R"({"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4, "<|endoftext|>": 5})");
  write("pair/merges.txt", "#version: 0.2\na b\n\u0120 a\n");
  EXPECT_EQ(
      succeed({"tokenize", path("pair"), "--text", "ab a<|endoftext|>", "--json"}).json()["rows"][0],
      parse_json(
          R"({"text": "ab a<|endoftext|>", "ids": [2, 4, 5], "pieces": ["ab", "\u0120a", "<|endoftext|>"],
                           "offsets": [[0, 2], [2, 4], [4, 17]]})",
          {}));
  write("special.json", R"({"added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": {"type": "BertProcessing", "cls": ["b", 1], "sep": ["a", 0]},
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})");
  EXPECT_EQ(succeed({"tokenize", path("special.json"), "--text", "b", "--json"}).json()["rows"][0]["ids"],
            Json::array({1, 1, 0}));
  const std::string table = succeed({"tokenize", path("special.json"), "--text", "b"}).out;
  EXPECT_NE(table.find("       0   1  b      none: a run puts it in front\n"), std::string::npos) << table;
  EXPECT_NE(table.find("       2   0  a      none: a run puts it at the end\n"), std::string::npos) << table;
  const auto special =
      succeed({"tokenize", path("special.json"), "--text", "b", "--add-special-tokens", "--json"}).json();
  EXPECT_EQ(special["rows"][0]["ids"], Json::array({1, 1, 0}));
  EXPECT_EQ(special["around"]["after"], Json::parse(R"([{"id": 0, "token": "a"}])"));
  EXPECT_EQ(special["rows"][0]["offsets"][0], Json::array({0, 0}));
}

// A file of weights means its model: a GGUF file has the tokenizer inside, others have it next to them.
TEST_F(TokenizeTest, AModelIsAlsoAFileOfWeights) {
  write_tokenizer();
  EXPECT_EQ(succeed({"tokenize", path("model/model.safetensors"), "--text", "w3 w4", "--json"})
                .json()["rows"][0]["ids"],
            Json::array({0, 3, 4}));
  const auto golden = [](const char* name) {
    return (std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden/gguf" / name).string();
  };
  EXPECT_EQ(
      succeed({"tokenize", golden("sentencepiece.gguf"), "--text", "A", "--json"}).json()["rows"][0]["ids"],
      Json::array({1, 473, 504}));
  expect_failure({"tokenize", golden("llama.gguf"), "--text", "a"}, 1, "this file has no tokenizer");
}

// A GGUF file is read as one under any name, never as a tokenizer.json.
TEST_F(TokenizeTest, AGgufFileWithoutItsEnding) {
  std::filesystem::copy_file(
      std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden/gguf/sentencepiece.gguf",
      folder_ / "sha256-0123");
  EXPECT_EQ(succeed({"tokenize", path("sha256-0123"), "--text", "A", "--json"}).json()["rows"][0]["ids"],
            Json::array({1, 473, 504}));
}

TEST_F(TokenizeTest, Decodes) {
  write_tokenizer("words");
  EXPECT_EQ(succeed({"tokenize", path("words"), "--decode", "0,5,6", "--json"}).json()["rows"][0]["text"],
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
  // A file that is neither a tokenizer nor a file of weights, as text and as bytes.
  write("notes.md", "# Notes");
  write("page.json", R"({"a": 1})");
  write("picture.png", "\x89PNG\r\n\x1a\n");
  for (const char* name : {"notes.md", "page.json", "picture.png"}) {
    expect_failure({"tokenize", path(name), "--text", "a"}, 1, "cannot be read as a tokenizer.json");
    expect_failure({"tokenize", path(name), "--text", "a"}, 1, "a model whose tokenizer is to be used");
  }
}

}  // namespace
}  // namespace hooked::tokenize_test
