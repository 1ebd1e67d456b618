// The rules of generation_config.json, against transformers' generate with the same models and files
// (tests/golden/makers/generation_rules.py).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "core/id_list.h"
#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/file.h"
#include "tests/support/goldens.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

namespace hooked::generation_rules_test {
namespace {

const Json& recorded() {
  static const Json kRecorded =
      parse_json(read_text_file(HOOKED_SOURCE_DIR "/tests/golden/generation_rules.json", 1 << 20), {});
  return kRecorded;
}

/// A copy of a golden checkpoint with another generation_config.json.
class Folder {
 public:
  explicit Folder(const std::string& name, const std::string& rules) {
    for (const auto& file : std::filesystem::directory_iterator(golden_case(name).folder())) {
      std::filesystem::copy_file(file, folder_ / file.path().filename());
    }
    write_file(folder_ / "generation_config.json", rules);
  }

  HookedTransformer load() const {
    return HookedTransformer::load(folder_.path().string(),
                                   {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  }
  std::filesystem::path path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

std::vector<std::int64_t> made_by(const HookedTransformer& model, const Json& row) {
  const auto prompt = row.at("prompt").get<std::vector<std::int64_t>>();
  GenerateOptions options{.max_new_tokens = recorded().at("new_tokens").get<std::int64_t>(),
                          .sampling = {.greedy = true}};
  if (!row.at("rules").contains("eos_token_id")) options.stop.tokens.emplace();
  return id_list(model.generate(at::tensor(prompt, at::kLong).unsqueeze(0), options).tokens);
}

class GenerationRules : public testing::TestWithParam<std::size_t> {};

TEST_P(GenerationRules, GiveTheTokensOfTransformers) {
  const Json& row = recorded().at("rows").at(GetParam());
  const Folder folder(row.at("case").get<std::string>(), json_text(row.at("rules")));
  const auto expected = row.at("tokens").get<std::vector<std::int64_t>>();
  const HookedTransformer model = folder.load();
  EXPECT_EQ(made_by(model, row), expected);
  // Saved with the model, and read again.
  model.save(folder.path() / "saved");
  const auto saved = HookedTransformer::load((folder.path() / "saved").string());
  EXPECT_EQ(made_by(saved, row), expected);
}

INSTANTIATE_TEST_SUITE_P(Recorded, GenerationRules,
                         testing::Range(std::size_t{0}, recorded().at("rows").size()), [](const auto& info) {
                           return recorded().at("rows").at(info.param).at("name").template get<std::string>();
                         });

std::string notes_with(const std::string& rules) {
  return fmt::format("{}", fmt::join(Folder("llama", rules).load().notes(), "\n"));
}

TEST(GenerationConfigs, WhatIsNotFollowedIsNoted) {
  const std::string usual = notes_with("{}");
  EXPECT_EQ(
      notes_with(R"({"temperature": 1.0, "top_k": 50, "top_p": 1.0, "num_beams": 1, "repetition_penalty": 1.0,
      "do_sample": false, "max_length": 20, "max_new_tokens": 9, "use_cache": true, "pad_token_id": 0, "bos_token_id": 1,
      "length_penalty": 2.0, "early_stopping": true, "transformers_version": "5.24.0", "_from_model_config": true,
      "bad_words_ids": null, "sequence_bias": null})"),
      usual);
  const auto expect_noted = [&](const std::string& rules, std::initializer_list<const char*> words) {
    const std::string notes = notes_with(rules);
    for (const char* word : words) EXPECT_NE(notes.find(word), std::string::npos) << rules << ": " << notes;
  };
  expect_noted(
      R"({"do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.1})",
      {"asks for do_sample, temperature, top_k, top_p, repetition_penalty", "its own options"});
  expect_noted(
      R"({"sequence_bias": [[[3], 2.0]], "guidance_scale": 1.5, "exponential_decay_length_penalty": [5, 1.1]})",
      {"sequence_bias, exponential_decay_length_penalty, guidance_scale", "does not do"});
  expect_noted(R"({"temperature": "0.7", "top_p": Infinity, "top_k": [50]})",
               {"asks for temperature, top_k, top_p, which"});
  expect_noted(R"({"num_beams": 4, "encoder_no_repeat_ngram_size": 2})",
               {"num_beams", "encoder_no_repeat_ngram_size"});
  expect_noted(R"({"favourite_colour": 3, "time_limit": Infinity})",
               {"nothing reads", "favourite_colour, time_limit"});
  expect_noted(R"({"suppress_tokens": [5, 99], "bad_words_ids": [[99]]})",
               {"suppress_tokens", "bad_words_ids", "left out"});
}

TEST(GenerationConfigs, WrongTypesAreRefusedAtTheirKey) {
  for (const char* key :
       {"bad_words_ids", "suppress_tokens", "no_repeat_ngram_size", "min_length", "forced_bos_token_id",
        "forced_eos_token_id", "begin_suppress_tokens", "min_new_tokens"}) {
    const Folder folder("llama", fmt::format(R"({{"{}": "x"}})", key));
    try {
      folder.load();
      ADD_FAILURE() << key;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.where()).find(key), std::string::npos) << error.what();
    }
  }
}

// People write -1 to get no end, and many small models still have an id of another vocabulary.
TEST(GenerationConfigs, StopTokensThatTheVocabularyLacksEndNothing) {
  const at::Tensor prompts = at::tensor({3, 4, 5, 7, 8, 9}, at::kLong).view({2, 3});
  const auto made = [&](const std::string& rules, const StopOptions& stop = {}) {
    return Folder("llama", rules)
        .load()
        .generate(prompts, {.max_new_tokens = 4, .sampling = {.greedy = true}, .stop = stop});
  };
  const at::Tensor without = made("{}", {.tokens = std::vector<std::int64_t>()}).tokens;
  const auto last_of = [](const at::Tensor& tokens) { return tokens.slice(1, 3); };
  for (const char* none : {"-1", "5000", "[5000, -1]"}) {
    EXPECT_TRUE(
        made(fmt::format(R"({{"eos_token_id": {}, "min_new_tokens": 3}})", none)).tokens.equal(without))
        << none;
  }
  // A row that ended is filled with a token that exists.
  const auto stop = last_of(without)[0][0].item<std::int64_t>();
  const GenerateResult ended = made(fmt::format(R"({{"eos_token_id": [5000, {}]}})", stop));
  EXPECT_EQ(ended.stopped[0], StopReason::stop_token);
  EXPECT_EQ(last_of(ended.tokens)[0][0].item<std::int64_t>(), stop);
}

// `generate` of transformers begins with it, whatever config.json says.
TEST(GenerationConfigs, TheDecoderStartsWithTheirToken) {
  const Folder folder("bart", R"({"decoder_start_token_id": 5})");
  EXPECT_EQ(folder.load().config().encoder->decoder_start_token, 5);
  EXPECT_THROW(Folder("bart", R"({"decoder_start_token_id": 99})").load(), ConfigError);
  EXPECT_THROW(Folder("bart", R"({"decoder_start_token_id": [4, 5]})").load(), ConfigError);
}

// Marian's own token belongs to the vocabulary that it was published with.
TEST(GenerationConfigs, AFamilysOwnStartIsTakenWhereTheVocabularyHasIt) {
  const Folder folder("marian", "{}");
  Json config = parse_json(read_text_file(folder.path() / "config.json", 1 << 20), {});
  config.erase("decoder_start_token_id");
  write_file(folder.path() / "config.json", json_text(config));
  EXPECT_EQ(folder.load().config().encoder->decoder_start_token, std::nullopt);
  write_file(folder.path() / "generation_config.json", R"({"decoder_start_token_id": 5})");
  EXPECT_EQ(folder.load().config().encoder->decoder_start_token, 5);
}

}  // namespace
}  // namespace hooked::generation_rules_test
