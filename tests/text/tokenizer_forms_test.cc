#include "text/tokenizer/tokenizer_forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/text/tokenizer.h"
#include "tests/support/temp_folder.h"
#include "tests/text/protobuf_writer.h"
#include "tests/text/rank_files.h"

namespace hooked::text::tokenizer_forms_test {
namespace {

using Ids = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

class FormsTest : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  Tokenizer load() const { return Tokenizer::load(folder_.path()); }

  void expect_refused(const std::string& where, const std::string& what) const {
    try {
      load();
      FAIL() << "accepted, expected: " << what;
    } catch (const TokenizerError& error) {
      EXPECT_NE(error.where().find(where), std::string::npos) << error.where();
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }

  TempFolder folder_;
};

TEST_F(FormsTest, TheFirstFormOfTheTableIsRead) {
  const std::vector<std::pair<Names, std::string>> order = {
      {{"tokenizer.json"}, "tokenizer.json"},
      {{"tekken.json"}, "tekken.json (tiktoken)"},
      {{"tokenizer.model"}, "tokenizer.model (SentencePiece)"},
      {{"spiece.model"}, "spiece.model (SentencePiece)"},
      {{"sentencepiece.bpe.model"}, "sentencepiece.bpe.model (SentencePiece)"},
      {{"qwen.tiktoken"}, "qwen.tiktoken (tiktoken)"},
      {{"cl100k_base.tiktoken"}, "cl100k_base.tiktoken (tiktoken)"},
      {{"o200k_base.tiktoken"}, "o200k_base.tiktoken (tiktoken)"},
      {{"vocab.json", "merges.txt"}, "a vocabulary and merges (byte-level BPE)"},
      {{"encoder.json", "vocab.bpe"}, "a vocabulary and merges (byte-level BPE)"},
      {{"vocab.txt"}, "vocab.txt (WordPiece)"}};
  write("tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})");
  write("tekken.json", tekken_text(2));
  for (const auto* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    write(name, small_model());
  for (const auto* name : {"qwen.tiktoken", "cl100k_base.tiktoken", "o200k_base.tiktoken"})
    write(name, rank_lines(2));
  for (const auto* name : {"vocab.json", "encoder.json"}) write(name, R"({"a": 0, "b": 1, "ab": 2})");
  for (const auto* name : {"merges.txt", "vocab.bpe"}) write(name, "#version: 0.2\na b\n");
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n");
  for (const auto& [files, form] : order) {
    EXPECT_EQ(Tokenizer::files_in(folder_.path()), files);
    EXPECT_EQ(load().form(), form);
    std::filesystem::remove(folder_ / files.front());
    for (const auto& file : files) {
      const auto known = Tokenizer::file_names();
      EXPECT_NE(std::find(known.begin(), known.end(), file), known.end()) << file;
    }
  }
  EXPECT_TRUE(Tokenizer::files_in(folder_.path()).empty());
  expect_refused(folder_.path().native(), "has no tokenizer");
}

TEST_F(FormsTest, AFileUnderTheNameOfSentencePiecesMayBeTiktokens) {
  write("tokenizer.model", rank_lines(2));
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer.form(), "tokenizer.model (tiktoken)");
  EXPECT_EQ(tokenizer.vocab_size(), 258 + 256);
  EXPECT_EQ(tokenizer.bos_id(), 258);
  EXPECT_EQ(tokenizer.encode("aab").ids, (Ids{257}));
  EXPECT_EQ(tokenizer.encode("a<|eot_id|>", {.add_special_tokens = true}).ids, (Ids{258, 97, 258 + 9}));
}

TEST_F(FormsTest, ClassesThatNumberPiecesInAnotherWayAreRefusedByName) {
  write("sentencepiece.bpe.model", small_model());
  write("tokenizer_config.json", R"({"tokenizer_class": "CamembertTokenizerFast"})");
  expect_refused("tokenizer_config.json: tokenizer_class", "\"CamembertTokenizer\" is not a class");
  std::filesystem::remove(folder_ / "tokenizer_config.json");
  write("config.json", R"({"model_type": "xglm"})");
  expect_refused("tokenizer_class", "\"XGLMTokenizer\" is not a class");
  write("config.json", R"({"model_type": "xlm-roberta"})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer.encode("ab\u00e9", {.add_special_tokens = true}).ids, (Ids{0, 8, 3, 2}));
  EXPECT_EQ(tokenizer.find("<mask>"), 9);
}

TEST_F(FormsTest, FilesForAnotherFolderNameTheClass) {
  write("sentencepiece.bpe.model", small_model());
  write("config.json", R"({"model_type": "xlm-roberta"})");
  write("tokenizer_config.json", R"({"model_max_length": 512})");
  const auto files = Tokenizer::read_files(folder_.path());
  const TempFolder other;
  for (const auto& [name, bytes] : files) std::ofstream(other / name, std::ios::binary) << bytes;
  EXPECT_EQ(files.size(), 2U);
  EXPECT_EQ(Tokenizer::load(other.path()).encode("ab", {.add_special_tokens = true}).ids, (Ids{0, 8, 2}));
}

TEST_F(FormsTest, SideFilesSayWhatIsPutAround) {
  write("tokenizer.model", small_model());
  write(
      "tokenizer_config.json",
      R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false, "add_eos_token": true, "legacy": true,
            "added_tokens_decoder": {"9": {"content": "<turn>", "special": true}}, "pad_token": "<pad>"})");
  auto tokenizer = load();
  EXPECT_EQ(tokenizer.encode("ab", {.add_special_tokens = true}).ids, (Ids{7, 2}));
  EXPECT_EQ(tokenizer.encode("ab<turn>ab<pad>").ids, (Ids{7, 8, 7, 9}));  // legacy: each part has a space
  write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  write("special_tokens_map.json", R"({"eos_token": {"content": "ab"}})");
  tokenizer = load();
  EXPECT_EQ(tokenizer.eos_id(), 6);
  EXPECT_EQ(tokenizer.encode("b<s>b", {.add_special_tokens = true}).ids, (Ids{3, 5, 1, 5}));
  EXPECT_FALSE(tokenizer.around()) << "no key says whether there is a BOS token";
  write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true})");
  EXPECT_EQ(load().encode("b<s>b", {.add_special_tokens = true}).ids, (Ids{1, 3, 5, 1, 5}));
}

TEST_F(FormsTest, SentinelsOfT5FollowThePieces) {
  write("spiece.model", small_model());
  write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 3, "pad_token": "<s>"})");
  auto tokenizer = load();
  EXPECT_EQ(tokenizer.find("<extra_id_2>"), 8);
  EXPECT_EQ(tokenizer.encode("ab<extra_id_0>ab", {.add_special_tokens = true}).ids, (Ids{7, 10, 7, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{7, 10, 7, 2}, {.skip_special_tokens = true}), "ab ab");
  // They are pieces, whatever is listed.
  write(
      "tokenizer_config.json",
      R"({"tokenizer_class": "T5Tokenizer", "pad_token": null, "additional_special_tokens": ["<extra_id_0>"]})");
  tokenizer = load();
  EXPECT_EQ(tokenizer.find("<extra_id_0>"), 107);
  EXPECT_EQ(tokenizer.vocab_size(), 108);
}

TEST_F(FormsTest, GemmaHasNoPrefix) {
  write("tokenizer.model", small_pieces() + bytes_field(2, number_field(3, 2)) +
                               bytes_field(3, number_field(3, 0) + number_field(4, 0)));
  write("tokenizer_config.json",
        R"({"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>", "eos_token": "</s>",
                                     "pad_token": null, "add_bos_token": true})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer.encode("ab ab", {.add_special_tokens = true}).ids, (Ids{1, 6, 7}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 7, 6}), "<s> abab");
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
}

TEST_F(FormsTest, OptionsOfWordListsAreReadOrRefused) {
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n\u00e9\r\nA\n");
  EXPECT_EQ(load().encode("A \u00e9", {.add_special_tokens = true}).ids, (Ids{1, 5, 0, 2}));
  write("tokenizer_config.json", R"({"do_lower_case": false, "cls_token": "[MASK]"})");
  EXPECT_EQ(load().encode("A \u00e9", {.add_special_tokens = true}).ids, (Ids{4, 7, 6, 2}));
  write("tokenizer_config.json", R"({"do_basic_tokenize": false})");
  expect_refused("do_basic_tokenize", "is not read");
  write("tokenizer_config.json", R"({"never_split": ["a"]})");
  expect_refused("never_split", "is not read");
  write("tokenizer_config.json", R"({"tokenizer_class": "TapasTokenizer"})");
  expect_refused("tokenizer_class", "\"TapasTokenizer\" is not a class whose vocab.txt is read");
  std::filesystem::remove(folder_ / "tokenizer_config.json");
  write("vocab.txt", std::string((1 << 21) + 1, '\n'));
  expect_refused("vocab.txt", "has 2097153 lines; expected at most 2097152");
  write("vocab.txt", "a\xC3\n");
  expect_refused("vocab.txt", "byte 1 is not valid UTF-8");
}

TEST_F(FormsTest, SideFilesThatAreWrong) {
  write("tokenizer.model", small_model());
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<t>"}}})");
  expect_refused("added_tokens_decoder.x", "is not an id");
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"4": {"content": 4}}})");
  expect_refused("added_tokens_decoder.4", "expected a token's spelling");
  write("tokenizer_config.json", R"({"bos_token": 7})");
  expect_refused("bos_token", "is an integer; expected a token's spelling");
  write("tokenizer_config.json", "[]");
  expect_refused("tokenizer_config.json", "expected an object");
  write("tokenizer_config.json", "{}");
  write("added_tokens.json", R"({"<t>": -1})");
  expect_refused("added_tokens.json: <t>", "is not an id");
}

TEST_F(FormsTest, RanksThatAreWrong) {
  const auto expect_lines = [&](const std::string& lines, const std::string& what) {
    write("qwen.tiktoken", lines);
    expect_refused("qwen.tiktoken", what);
  };
  const auto good = rank_lines(1);
  expect_lines(good.substr(good.find('\n') + 1), "lacks the byte 0x00");
  expect_lines(good + "!!!! 300\n", "is not a token");
  expect_lines(good + "YWFh x\n", "is not a token");
  expect_lines(good + "YWFh -1\n", "has the rank -1");
  expect_lines(good + "YWFh 16777216\n", "has the rank 16777216");
  expect_lines(good + "YWFh 7\n", "has the id 7, which is that of");
  expect_lines(good + base64("ab") + " 300\n", "has the ids 256 and 300");
  expect_lines(good + base64(std::string(1025, 'a')) + " 300\n", "has 1025 bytes; expected at most 1024");
  std::filesystem::remove(folder_ / "qwen.tiktoken");
  write("other.tiktoken", good);
  expect_refused("other.tiktoken", "pattern of words is not known");
}

TEST_F(FormsTest, TekkensThatAreWrong) {
  const auto expect_text = [&](const std::string& from, const std::string& to, const std::string& what) {
    auto text = tekken_text(1);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write("tekken.json", text.replace(at, from.size(), to));
    expect_refused("tekken.json", what);
  };
  expect_text("\"pattern\": \"[a-z]+|", "\"pattern\": \"[a-z+|", "cannot be compiled");
  expect_text("\"default_vocab_size\": 262", "\"default_vocab_size\": 4", "expected at least 5");
  expect_text("\"default_vocab_size\": 262", "\"default_vocab_size\": 200", "lacks the byte");
  expect_text("\"default_num_special_tokens\": 5", "\"default_num_special_tokens\": 65537", "65537");
  expect_text("\"rank\": 1, \"token_str\": \"<s>\"", "\"rank\": 9, \"token_str\": \"<s>\"", "has the rank 9");
  expect_text("\"token_str\": \"<s>\"", "\"token_str\": \"<unk>\"", "has the ids 0 and 1");
  expect_text("\"AA==\"", "\"AA\"", "is not base64");
  expect_text("\"vocab\": [{", "\"vocab\": [7,{", "is not a token");
}

}  // namespace
}  // namespace hooked::text::tokenizer_forms_test
