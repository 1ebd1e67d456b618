// The example that embeds sentences: on a tiny model with a tokenizer of its own, and on a trained one.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "hooked/hooked.h"
#include "tests/support/fetched_models.h"
#include "tests/support/golden_folder.h"
#include "tests/support/relative_difference.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace hooked::sentence_encoder_test {
namespace {

constexpr double kToleranceFloat32 = 1e-5;  // of numbers up to 1

const std::filesystem::path kGoldens = std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden";

// A WordPiece tokenizer of 23 pieces that puts [CLS] and [SEP] around texts, as BERT's does.
nlohmann::json small_tokenizer() {
  const std::vector<std::string> pieces = {
      "[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a",   "cat", "dog", "sat", "on",  "the", "mat",
      "##s",   "##ted", ".",     ",",     "ran",    "far", "red", "sun", "is",  "big", "low"};
  nlohmann::json vocab, added = nlohmann::json::array();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    vocab[pieces[id]] = id;
    if (pieces[id].front() != '[') continue;
    added.push_back({{"id", id},
                     {"content", pieces[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const auto special = [](const char* id) {
    return nlohmann::json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}};
  };
  const nlohmann::json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", nullptr},
        {"lowercase", true}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {special("[CLS]"), text, special("[SEP]")}},
        {"pair", {special("[CLS]"), text, special("[SEP]"), {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
        {"special_tokens",
         {{"[CLS]", {{"id", "[CLS]"}, {"ids", {1}}, {"tokens", {"[CLS]"}}}},
          {"[SEP]", {{"id", "[SEP]"}, {"ids", {2}}, {"tokens", {"[SEP]"}}}}}}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", vocab}}}};
}

// The vectors that the program prints, [sentence, d_model].
at::Tensor vectors_in(const std::string& output) {
  std::vector<at::Tensor> rows;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("vector ")) continue;
    std::istringstream numbers(line.substr(line.find(':') + 1));
    std::vector<double> row;
    for (double number; numbers >> number;) row.push_back(number);
    rows.push_back(at::tensor(row, at::kDouble));
  }
  return rows.empty() ? at::Tensor() : at::stack(rows);
}

TEST(SentenceEncoder, VectorsAreTheMeanOfTheLastStreamOverRealTokens) {
  const TempFolder folder;
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy(golden_folder("cases/bert_no_head") / file, folder / file);
  }
  std::ofstream(folder / "tokenizer.json") << small_tokenizer().dump();
  const std::vector<std::string> sentences = {"The cats sat on a mat.", "A dog ran"};
  const auto finished =
      run_program("sentence_encoder", "\"" + folder.path().string() + "\" \"" + sentences[0] + "\" \"" +
                                          sentences[1] + "\" \"" + sentences[1] + "\" --vectors");
  ASSERT_EQ(finished.status, 0) << finished.output;
  EXPECT_TRUE(std::regex_search(finished.output, std::regex(R"( 1\.00000  A dog ran  \|  A dog ran)")))
      << finished.output;

  const at::Tensor got = vectors_in(finished.output);
  const auto model = HookedTransformer::load(folder.path().string(), {.dtype = at::kDouble});
  ASSERT_TRUE(model.to_tokens(sentences[1]).equal(at::tensor({1, 5, 7, 16, 2}, at::kLong).unsqueeze(0)));
  for (std::int64_t i = 0; i < 2; ++i) {  // each sentence alone, without any padding
    const at::Tensor stream =
        model.run(model.to_tokens(sentences[static_cast<std::size_t>(i)]), {.output = Output::residual})
            .residual();
    const at::Tensor mean = stream[0].mean(0);
    EXPECT_LT(relative_difference(got[i], mean / mean.norm()), kToleranceFloat32);
  }
}

TEST(SentenceEncoder, AMissingModelIsAnErrorOnOneLine) {
  const auto finished = run_program("sentence_encoder", "/no/such/model");
  EXPECT_NE(finished.status, 0);
  EXPECT_NE(finished.output.find("/no/such/model"), std::string::npos) << finished.output;
}

TEST(SentenceEncoder, ATrainedModelGivesTheEmbeddingsOfSentenceTransformers) {
  if (const auto why = why_absent(kMiniLM); !why.empty()) GTEST_SKIP() << why;
  const auto golden = nlohmann::json::parse(std::ifstream(kGoldens / "real_models/minilm.json"));
  std::string arguments = "\"" + kMiniLM.string() + "\" --vectors";
  for (const auto& sentence : golden["sentences"])
    arguments += " \"" + sentence["text"].get<std::string>() + "\"";
  const auto finished = run_program("sentence_encoder", arguments);
  ASSERT_EQ(finished.status, 0) << finished.output;
  const at::Tensor expected =
      SafetensorsFile::open(kGoldens / "real_models/minilm.safetensors").read("vectors");
  EXPECT_LT(relative_difference(vectors_in(finished.output), expected), kToleranceFloat32);
}

}  // namespace
}  // namespace hooked::sentence_encoder_test
