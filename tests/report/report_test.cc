// Reports: which sections they have, that their numbers are those of the analyses, and what is refused.
#include "hooked/report/report.h"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/io/file.h"
#include "tests/support/page_data.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::report_test {
namespace {

using Document = nlohmann::json;
using testing::ElementsAre;
using testing::Not;

Document data_of(const Page& page) { return page_data(page.html()); }

const Prompt kPrompt = std::vector<std::int64_t>{1, 2, 3, 4, 5, 6};
const Prompt kOther = std::vector<std::int64_t>{1, 2, 7, 4, 5, 6};

TEST(Report, HasTheSectionsOfAPrompt) {
  const HookedTransformer model = random_model();
  const Page page = report(model, kPrompt);
  EXPECT_THAT(page.sections(),
              ElementsAre("Tokens", "Logit lens", "Attention", "Scores of heads", "What writes the answer"));
  const Document data = data_of(page);
  for (const Document& section : data["sections"]) {
    EXPECT_FALSE(section["parts"].empty()) << section["title"];
    for (const char* language : {"shell", "cpp", "python"}) EXPECT_TRUE(section["code"].contains(language));
    for (const Document& part : section["parts"])
      EXPECT_THAT(part.value("text", ""), Not(HasSubstr("Not in this report")));
  }
  EXPECT_THAT(data["sections"][0]["code"]["cpp"].get<std::string>(),
              HasSubstr("const auto tokens = at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).unsqueeze(0);"));
  EXPECT_THAT(data["sections"][0]["code"]["python"].get<std::string>(),
              HasSubstr("tokens = torch.tensor([[1, 2, 3, 4, 5, 6]])"));
  // The answer is the likeliest next token.
  const at::Tensor logits = model.run(at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).view({1, 6})).logits();
  const auto likeliest = logits[0][-1].argmax().item<std::int64_t>();
  EXPECT_THAT(data["sections"][4]["code"]["shell"].get<std::string>(),
              HasSubstr("--answer-token " + std::to_string(likeliest)));
}

TEST(Report, TheCodeLoadsWeightsAsTheyWere) {
  const auto model = HookedTransformer::load(HOOKED_SOURCE_DIR "/tests/golden/gguf/quantised.gguf",
                                             {.weights = WeightStorage::stored});
  const Document code = data_of(report(model, kPrompt))["sections"][0]["code"];
  EXPECT_THAT(code["cpp"].get<std::string>(), HasSubstr("{.weights = hooked::WeightStorage::stored}"));
  EXPECT_THAT(code["python"].get<std::string>(), HasSubstr(", weights=\"stored\")"));
}

TEST(Report, APairIsPatched) {
  const HookedTransformer model = random_model();
  const Page page = report(model, kPrompt, {.corrupted = kOther, .answers = {8}, .against = {9}});
  EXPECT_EQ(page.sections().back(), "Activation patching");
  const Document parts = data_of(page)["sections"].back()["parts"];
  ASSERT_EQ(parts.size(), 3U);
  const PromptPairs pairs(model, {{.clean = kPrompt, .corrupted = kOther, .answers = {8}, .against = {9}}});
  const Metrics metric = logit_difference(pairs.answers(), pairs.against());
  const Grid heads = sweep(model, patching_preset("attn_head_out_all_pos"),
                           {.from = model.run_with_cache(pairs.clean(), act::z).cache,
                            .into = pairs.corrupted(),
                            .metric = metric});
  const double zero = scores(model, pairs.corrupted(), metric).values().item<double>(),
               one = scores(model, pairs.clean(), metric).values().item<double>();
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    for (std::int64_t head = 0; head < 4; ++head)
      EXPECT_NEAR(
          parts[2]["values"][static_cast<std::size_t>(layer)][static_cast<std::size_t>(head)].get<double>(),
          (heads.at({layer, head}) - zero) / (one - zero), 1e-3);
  }
}

TEST(Report, HeadsHaveTheirPartsOfTheLogit) {
  const HookedTransformer model = random_model();
  const Document parts =
      data_of(report(model, kPrompt, {.answers = {8}, .against = {9}}))["sections"].back()["parts"];
  const auto run = model.run_with_cache(at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).view({1, 6}));
  const Grid whole =
      direct_logit_attribution(model, run.cache, {.answer = 8, .against = 9, .grain = Grain::head});
  const Grid one = whole.slice("part", "head 1.2");
  EXPECT_NEAR(parts[1]["values"][1][2].get<double>(), one.values().item<double>(), 1e-4);
}

TEST(Report, DictionariesHaveFeaturesAndTranscodersAGraph) {
  const HookedTransformer model = random_model();
  const auto spliced =
      model.with_dictionary(random_autoencoder("blocks.0.hook_resid_post", 8), {.with_error = true});
  const Page page = report(spliced, kPrompt, {.graph = random_transcoders(model.config(), {})});
  EXPECT_EQ(page.sections()[5], "Features of blocks.0.hook_resid_post");
  EXPECT_EQ(page.sections()[6], "Attribution graph");
  const Document sections = data_of(page)["sections"];
  EXPECT_EQ(sections[5]["parts"][0]["kind"], "features");
  EXPECT_EQ(sections[6]["parts"].back()["kind"], "svg");
}

TEST(Report, WhatAModelLacksIsSaid) {
  ModelConfig config = small_config();
  config.unembedding.reset();
  const Document data = data_of(report(random_model(config), kPrompt));
  EXPECT_THAT(data["sections"][0]["parts"][0]["text"].get<std::string>(),
              HasSubstr("Not in this report: [tokens] the model has no unembedding"));
  EXPECT_EQ(data["sections"][2]["parts"][0]["kind"], "attention");
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

// Each section's C++ is in a program that the build compiles, and the test page_code runs.
TEST(Report, ItsCppIsThatOfAProgram) {
  const std::filesystem::path root = HOOKED_SOURCE_DIR, examples = root / "examples";
  const std::string model = (examples / "toy_model").string();
  const std::string program = without_blanks(read_text_file(root / "tests/report/page_code.cc", 1 << 20));
  const auto expect_in_program = [&](const Page& page, std::size_t sections) {
    const Document data = data_of(page)["sections"];
    ASSERT_GE(data.size(), sections);
    for (std::size_t i = 0; i < sections; ++i) {
      const auto code = data[i]["code"]["cpp"].get<std::string>();
      EXPECT_NE(program.find("{" + without_blanks(code) + "}"), std::string::npos)
          << data[i]["title"] << " is not a block of tests/report/page_code.cc:\n"
          << code;
    }
  };
  const Dictionary sae = Dictionary::load((examples / "toy_sae").string());
  const auto fitted = HookedTransformer::load(model, {.without = steps_that_change(sae)});
  expect_in_program(report(fitted.with_dictionary(sae, {.with_error = true}),
                           "When John and Mary went to the shop, John gave a bag to",
                           {.model_name = "examples/toy_model",
                            .corrupted = "When John and Mary went to the shop, Mary gave a bag to",
                            .answers = {" Mary"},
                            .against = {" John"},
                            .prepend_bos = PrependBos::yes,
                            .graph = GraphFeatures::neurons()}),
                    8);
  const Prompt ids = std::vector<std::int64_t>{0, 10, 20, 30};
  const auto raw = HookedTransformer::load(model, {.processing = WeightProcessing::none()});
  expect_in_program(report(raw, ids,
                           {.model_name = "examples/toy_model",
                            .corrupted = std::vector<std::int64_t>{0, 10, 21, 30},
                            .answers = {5},
                            .graph = DictionarySet::load((examples / "toy_transcoders").string()).members()}),
                    7);
  const auto wide = HookedTransformer::load(model, {.dtype = at::kDouble});
  expect_in_program(report(wide, ids, {.model_name = "examples/toy_model"}), 1);
}

TEST(Report, WhatIsPutAroundATextIsInItsCode) {
  const auto model = HookedTransformer::load(HOOKED_SOURCE_DIR "/examples/toy_model");
  const auto code_with = [&](PrependBos prepend_bos) {
    const Document code =
        data_of(report(model, "Then Mary", {.prepend_bos = prepend_bos}))["sections"][0]["code"];
    return code["shell"].get<std::string>() + "\n" + code["python"].get<std::string>();
  };
  EXPECT_THAT(code_with(PrependBos::by_default), Not(HasSubstr("prepend")));
  EXPECT_THAT(code_with(PrependBos::no), testing::AllOf(HasSubstr(" --prepend-bos no"),
                                                        HasSubstr("\"Then Mary\", prepend_bos=\"no\")")));
  const at::Tensor bare = model.to_tokens("Then Mary", {.prepend_bos = PrependBos::nothing});
  ASSERT_EQ(bare.sizes(), (at::IntArrayRef{1, 2}));
  EXPECT_THAT(code_with(PrependBos::nothing),
              HasSubstr("--tokens " + std::to_string(bare[0][0].item<std::int64_t>()) + "," +
                        std::to_string(bare[0][1].item<std::int64_t>())));
}

TEST(Report, EndsEarly) {
  int calls = 0;
  const Page page =
      report(random_model(), kPrompt, {.progress = [&](const SweepProgress&) { return ++calls < 2; }});
  EXPECT_LT(page.sections().size(), 5U);
  EXPECT_THAT(data_of(page)["notes"].dump(), HasSubstr("ended early"));
  std::int64_t done = 0, total = 0;
  report(random_model(), kPrompt, {.progress = [&](const SweepProgress& progress) {
           EXPECT_GE(progress.done, done);
           done = progress.done;
           total = progress.total;
           return true;
         }});
  EXPECT_EQ(done, 5);
  EXPECT_EQ(total, 5);
}

TEST(Report, RefusesWhatItCannotBeAbout) {
  EXPECT_THROW(report(random_model(), kPrompt, {.corrupted = kOther}), HookError);
  EXPECT_THROW(report(random_model(), kPrompt, {.against = {3}}), HookError);
  EXPECT_THROW(report(random_model(two_stack_config()), kPrompt), HookError);
  EXPECT_THROW(report(random_model(), std::vector<std::int64_t>{1, 99}), ShapeError);
}

/// A report of 12 layers of 12 heads. HOOKED_PAGES names a folder where the page is kept.
std::uintmax_t bytes_of_report(std::int64_t length) {
  ModelConfig config = small_config();
  config.n_layers = config.n_heads = config.n_kv_heads = 12;
  config.n_ctx = length;
  config.d_model = 48;
  config.d_head = 4;
  config.dtype = at::kFloat;
  const HookedTransformer model = random_model(config);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back(i * i % 11);
  const TempFolder folder;
  const char* kept = std::getenv("HOOKED_PAGES");
  const std::filesystem::path file =
      (kept == nullptr ? folder.path() : std::filesystem::path(kept)) / (std::to_string(length) + ".html");
  report(model, ids).save(file);
  return std::filesystem::file_size(file);
}

TEST(ReportSizes, OfTwelveLayers) {
  EXPECT_LT(bytes_of_report(64), 5U << 20);
  const auto bytes = bytes_of_report(1024);
  EXPECT_LT(bytes, 40U << 20);
  EXPECT_GT(bytes, 20U << 20) << "the strongest keys are there";
}

}  // namespace
}  // namespace hooked::report_test
