// Added tokens, their ids, flags and how they behave inside a text, for every form of tokenizer.
// Expected ids: AutoTokenizer of transformers 5.23.
#include "text/files/side_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/text/tokenizer.h"
#include "tests/support/temp_folder.h"
#include "tests/text/protobuf_writer.h"

namespace hooked::text::side_files_test {
namespace {

using Ids = std::vector<std::int64_t>;

// A tokenizer.json without files next to it: byte_level has 560 pieces and `<end>` 560, words 420, unigram
// 359.
const Json& document(const std::string& name) {
  static const Json all = [] {
    std::ifstream in(HOOKED_SOURCE_DIR "/tests/text/files/classes/cases.json", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    return parse_json(text, {.bytes = std::size_t{1} << 24})["documents"];
  }();
  return all.at(name);
}

Json token(std::string_view content, Json flags = Json::object()) {
  Json token = {{"content", content}, {"lstrip", false},      {"normalized", false},
                {"rstrip", false},    {"single_word", false}, {"special", true}};
  for (const auto& [key, value] : flags.items()) token[key] = value;
  return token;
}

Json numbered(std::int64_t id, Json token) {
  token["id"] = id;
  return token;
}

/// A unigram model: `<pad>`, `</s>`, `<unk>`, a blank, a, b, ab, blank and a.
std::string unigram_pieces(bool of_t5) {
  const auto control = [](std::string_view text) { return piece_field(text, 0, 3); };
  const auto unknown = piece_field("<unk>", 0, 2);
  return (of_t5 ? control("<pad>") + control("</s>") + unknown : unknown + control("<s>") + control("</s>")) +
         piece_field("\u2581", -2) + piece_field("a", -3) + piece_field("b", -3) + piece_field("ab", -1) +
         piece_field("\u2581a", -4);
}
std::string t5_model() {
  const auto none = std::uint64_t{0} - 1;
  return unigram_pieces(true) +
         bytes_field(
             2, number_field(3, 1) + number_field(40, 2) + number_field(41, none) + number_field(42, 1)) +
         bytes_field(3, number_field(4, 0));
}
std::string xlm_model() {
  return unigram_pieces(false) + bytes_field(2, number_field(3, 1)) + bytes_field(3, number_field(4, 0));
}

class SideFilesTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const Json& json) { write_bytes(name, json.dump()); }
  void write_bytes(const std::string& name, std::string_view bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void write_document(const std::string& name, const std::vector<Json>& more = {}) {
    Json json = document(name);
    for (const auto& added : more) json["added_tokens"].push_back(added);
    write("tokenizer.json", json);
  }
  void write_model_type(std::string_view type) { write("config.json", {{"model_type", type}}); }
  void write_options(std::string_view tokenizer_class, Json more = Json::object()) {
    Json config = {{"tokenizer_class", tokenizer_class}};
    for (const auto& [key, value] : more.items()) config[key] = value;
    write("tokenizer_config.json", config);
  }

  Tokenizer load() const { return Tokenizer::load(folder_.path()); }
  Ids ids(std::string_view text) const { return load().encode(text, {.add_special_tokens = true}).ids; }
  bool has_note(std::string_view part) const {
    const auto tokenizer = load();
    return std::ranges::any_of(tokenizer.notes(),
                               [&](const auto& note) { return note.find(part) != std::string::npos; });
  }

  TempFolder folder_;
  const std::vector<Json> gap_ = {numbered(561, token("<a>")), numbered(570, token("<b>"))};
  const std::vector<Json> two_ = {numbered(561, token("<a>")), numbered(562, token("<b>"))};
};

TEST_F(SideFilesTest, AFileThatLeavesIdsOutIsNumberedWithoutThem) {
  write_document("byte_level", gap_);
  write_options("PreTrainedTokenizerFast");
  EXPECT_EQ(ids("x<a><b>"), (Ids{91, 561, 562, 560}));
  EXPECT_TRUE(has_note("<b> (562, not 570)"));
  write_options("Qwen2Tokenizer");
  EXPECT_EQ(ids("x<a><b>"), (Ids{91, 561, 562, 560}));
  write_document("words", {numbered(700, token("dog", {{"special", false}}))});
  write_options("PreTrainedTokenizerFast");
  EXPECT_EQ(ids("dog"), (Ids{407, 420})) << "a piece has its own id";
  EXPECT_TRUE(has_note("dog (407, not 700)"));
}

// The package gives the id that the post-processor states.
TEST_F(SideFilesTest, TheIdsOfAPostProcessorNeedNoPiece) {
  Json json = document("byte_level");
  json["added_tokens"].back()["id"] = 600;
  json["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"<end>", 600}}, {"cls", {"<s>", 0}}};
  write("tokenizer.json", json);
  write_options("PreTrainedTokenizerFast");
  const auto encoding = load().encode("x<end>", {.add_special_tokens = true});
  EXPECT_EQ(encoding.ids, (Ids{0, 91, 560, 600}));
  EXPECT_EQ(encoding.pieces.back(), "<600>");
  EXPECT_TRUE(has_note("puts the id 600 around a text, which no piece has"));
}

TEST_F(SideFilesTest, AClassThatBuildsItsPipelineKnowsTheListedTokensOnly) {
  const std::vector<std::pair<std::string, Ids>> cases = {{"Qwen2Tokenizer", {91, 31, 68, 33, 561, 560}},
                                                          {"GPT2Tokenizer", {91, 31, 68, 33, 561, 560}},
                                                          {"GPTNeoXTokenizer", {91, 31, 68, 33, 561}},
                                                          {"BartTokenizer", {560, 91, 31, 68, 33, 561, 560}},
                                                          {"CohereTokenizer", {91, 31, 68, 33, 561, 560}}};
  write_document("byte_level", two_);
  for (const auto& [name, expected] : cases) {
    Json options = {{"added_tokens_decoder", {{"560", token("<end>")}, {"562", token("<b>")}}}};
    for (const auto* key :
         {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"})
      options[key] = "<end>";
    write_options(name, options);
    EXPECT_EQ(ids("x<a><b>"), expected) << name;
  }
}

TEST_F(SideFilesTest, QwensClassTakesTheFlagsFromSpecialTokens) {
  const Json strips = {{"lstrip", true}, {"rstrip", true}};
  write_document("byte_level", {two_[0], numbered(562, token("<b>", strips))});
  write_options("GPT2Tokenizer", {{"pad_token", "<b>"}});
  EXPECT_EQ(ids("x <b> y"), (Ids{91, 562, 92, 560}));
  write_options("Qwen2Tokenizer", {{"pad_token", "<b>"}});
  EXPECT_EQ(ids("x <b> y"), (Ids{91, 224, 562, 402, 560}));
  write_options("Qwen2Tokenizer",
                {{"additional_special_tokens", Json::array({"<b>"})},
                 {"added_tokens_decoder",
                  {{"560", token("<end>")}, {"561", token("<a>")}, {"562", token("<b>", strips)}}}});
  EXPECT_EQ(ids("x <b> y"), (Ids{91, 224, 562, 402, 560}));
}

TEST_F(SideFilesTest, ATokenOfSeveralKeysHasTheLastFlags) {
  write_document("byte_level");
  const auto write_named = [&](Json bos, Json eos, Json foo) {
    write_options("GPT2Tokenizer", {{"added_tokens_decoder", {{"560", token("<end>")}}},
                                    {"unk_token", "<end>"},
                                    {"bos_token", std::move(bos)},
                                    {"eos_token", std::move(eos)},
                                    {"foo_token", std::move(foo)}});
  };
  const Json strips = token("<b>", {{"lstrip", true}, {"__type", "AddedToken"}});
  write_named(strips, "<b>", nullptr);
  EXPECT_EQ(ids("x <b>"), (Ids{91, 224, 561, 560}));
  write_named("<b>", strips, nullptr);
  EXPECT_EQ(ids("x <b>"), (Ids{91, 561, 560}));
  // An object that is not marked as a token does not name one.
  write_named("<end>", "<end>", token("<foo>"));
  EXPECT_EQ(ids("x<foo>"), (Ids{91, 31, 73, 82, 82, 33, 560}));
  write_named("<end>", "<end>", token("<foo>", {{"__type", "AddedToken"}}));
  EXPECT_EQ(ids("x<foo>"), (Ids{91, 561, 560}));
}

TEST_F(SideFilesTest, SpecialTokensInATextAreTextWhereTheFilesSaySo) {
  const auto expect_split = [&](std::string_view text, const Ids& expected) {
    EXPECT_EQ(ids(text), expected) << text;
    EXPECT_TRUE(has_note("split_special_tokens of tokenizer_config.json")) << text;
  };
  const Json split = {{"split_special_tokens", true}};
  write_document("byte_level", two_);
  write_options("PreTrainedTokenizerFast", split);
  expect_split("x<a><b>", {91, 31, 68, 33, 31, 69, 33, 560});
  // A token that was special once stays so.
  write_document("byte_level", {two_[0]});
  write("added_tokens.json", {{"<a>", 600}});
  expect_split("x<a><b>", {91, 31, 68, 33, 31, 69, 33, 560});
  std::filesystem::remove(folder_ / "added_tokens.json");
  std::filesystem::remove(folder_ / "tokenizer.json");

  write_bytes("spiece.model", t5_model());
  write_options("T5Tokenizer", split);
  expect_split("ab</s>ab<extra_id_0>", {3, 6, 1, 6, 107, 1});
  write_bytes("spiece.model", xlm_model());
  write_options("XLMRobertaTokenizer", split);
  expect_split("ab<s>ab", {0, 4, 7, 0, 7, 2});
  write_bytes("spiece.model", small_model());
  write_options("LlamaTokenizer", split);
  expect_split("ab<s>ab", {7, 6});
  write_options("GemmaTokenizer", {{"split_special_tokens", true}, {"bos_token", "<s>"}});
  expect_split("ab<s>ab", {6, 0, 6});
  std::filesystem::remove(folder_ / "spiece.model");

  const auto& model = document("byte_level")["model"];
  write("vocab.json", model["vocab"]);
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : model["merges"]) {
    merges += merge.is_string() ? merge.get<std::string>() + "\n"
                                : merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  }
  write_bytes("merges.txt", merges);
  write_options(
      "GPT2Tokenizer",
      {{"split_special_tokens", true}, {"eos_token", "</s>"}, {"bos_token", "<s>"}, {"unk_token", "<unk>"}});
  expect_split("a <s> b", {68, 224, 31, 86, 33, 286});
  std::filesystem::remove(folder_ / "vocab.json");

  std::vector<std::string> lines(420);
  for (const auto& [piece, id] : document("words")["model"]["vocab"].items())
    lines[id.get<std::size_t>()] = piece;
  std::string vocab;
  for (const auto& line : lines) vocab += line + "\n";
  write_bytes("vocab.txt", vocab);
  write_options("BertTokenizer", split);
  expect_split("the [MASK] dog", {2, 331, 1, 44, 208, 215, 228, 1, 407, 3});
}

// A SentencePiece file whose model's class is not the one that is named.
TEST_F(SideFilesTest, ASentencePieceFileMayHaveNoClassOfItsOwn) {
  write_bytes("tokenizer.model", small_model());
  const auto expect_plain = [&](const Ids& expected) {
    EXPECT_EQ(ids("ab ab<s>"), expected);
    EXPECT_TRUE(has_note("no blank is put before a text"));
    // Saved with a model, whose config.json is another one.
    const TempFolder saved;
    for (const auto& [name, content] : Tokenizer::read_files(folder_.path()))
      std::ofstream(saved / name, std::ios::binary) << content;
    std::ofstream(saved / "config.json") << R"({"model_type": "hooked_transformer"})";
    EXPECT_EQ(Tokenizer::load(saved.path()).encode("ab ab<s>", {.add_special_tokens = true}).ids, expected);
  };
  write_model_type("mistral");
  write_options("LlamaTokenizer");
  expect_plain({6, 7, 1});
  write_model_type("phi3");
  write_options("LlamaTokenizer", {{"add_bos_token", true}});
  expect_plain({1, 6, 7, 1});
  write_model_type("llama");
  write("tokenizer_config.json", {{"bos_token", "<s>"}});
  expect_plain({6, 7, 1});
  write_options("LlamaTokenizer");
  EXPECT_EQ(ids("ab  ab"), (Ids{7, 3, 7}));
  EXPECT_EQ(ids(" ab"), (Ids{7}));
  EXPECT_FALSE(has_note("no blank is put before a text"));
  // A piece takes the name of the token that has its id.
  write_model_type("mistral");
  write_options("LlamaTokenizer", {{"added_tokens_decoder", {{"2", token("<x>")}, {"9", token("<y>")}}}});
  EXPECT_EQ(ids("ab ab<x>"), (Ids{6, 7, 2}));
  EXPECT_EQ(ids("<y>"), (Ids{8}));
  write_bytes("tokenizer.model", t5_model());
  write_options("LlamaTokenizer");
  EXPECT_EQ(ids("ab ab</s>"), (Ids{6, 3, 6, 1}));
}

TEST_F(SideFilesTest, TokensBesideASentencePieceFileAreNumberedAsAllOthers) {
  write_bytes("spiece.model", t5_model());
  write_options("T5Tokenizer", {{"add_prefix_space", false}});
  EXPECT_EQ(ids("ab"), (Ids{3, 6, 1}));
  write_options("T5Tokenizer", {{"pad_token", nullptr}});
  EXPECT_EQ(ids("ab<pad>ab"), (Ids{3, 6, 0, 3, 6, 1}));
  write_options("T5Tokenizer",
                {{"pad_token", nullptr}, {"additional_special_tokens", Json::array({"<extra_id_0>"})}});
  EXPECT_EQ(ids("ab<extra_id_0><extra_id_1>"), (Ids{3, 6, 107, 3, 106, 1}));
  write("added_tokens.json", {{"<new>", 200}});
  write_options("T5Tokenizer");
  EXPECT_EQ(ids("ab<new>"), (Ids{3, 6, 108, 1}));
  EXPECT_TRUE(has_note("<new> (108, not 200)"));
  write_bytes("spiece.model", xlm_model());
  write_options("XLMRobertaTokenizer");
  EXPECT_EQ(ids("ab<new><mask>"), (Ids{0, 4, 7, 10, 9, 2}));
}

TEST_F(SideFilesTest, ExtraTokensOfTheMapAreAnArgumentOfTheClass) {
  write("special_tokens_map.json", {{"additional_special_tokens", Json::array({"<new>"})}});
  write_document("unigram");
  write_options("T5Tokenizer", {{"extra_ids", 2}});
  EXPECT_EQ(ids("ab<new><extra_id_1>"), (Ids{12, 160, 360, 362, 2}));
  write_options("MBartTokenizer");
  EXPECT_EQ(ids("ab<new>en_XX"), (Ids{12, 160, 384, 11, 2, 11}));
  write_options("XLNetTokenizer");
  EXPECT_EQ(ids("ab<new><eop>"), (Ids{12, 160, 360, 12, 220, 16, 22, 185, 114, 9, 10}));
  std::filesystem::remove(folder_ / "special_tokens_map.json");
  write_options("XLNetTokenizer", {{"additional_special_tokens", Json::array()}});
  EXPECT_EQ(ids("ab<eop>"), (Ids{12, 160, 220, 16, 22, 185, 114, 9, 10})) << "an empty list is a list";
  std::filesystem::remove(folder_ / "tokenizer.json");
  write_bytes("tokenizer.model", small_model());
  write("special_tokens_map.json", {{"additional_special_tokens", Json::array({"<new>"})}});
  write_options("LlamaTokenizer");
  EXPECT_FALSE(load().find("<new>")) << "the file's own tokens take the place of the map's";
}

}  // namespace
}  // namespace hooked::text::side_files_test
