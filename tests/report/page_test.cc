// Pages: the JSON inside them says what was computed, and nothing in it can end the script element.
#include "hooked/report/page.h"

#include <nlohmann/json.hpp>

#include "core/base64.h"
#include "hooked/analysis/bar_plot.h"
#include "hooked/analysis/residual.h"
#include "hooked/harvest/harvest.h"
#include "hooked/harvest/reductions.h"
#include "hooked/io/file.h"
#include "tests/support/page_data.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::page_test {
namespace {

using Document = nlohmann::json;

Document data_of(const Page& page) { return page_data(page.html()); }

/// The parts of the last section.
Document parts_of(const Page& page) { return data_of(page)["sections"].back()["parts"]; }

std::vector<std::uint16_t> numbers_of(const Document& base64) {
  const std::string bytes = decode_base64(base64.get<std::string>()).value();
  std::vector<std::uint16_t> numbers;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
    numbers.push_back(static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[i]) |
                                                 static_cast<unsigned char>(bytes[i + 1]) << 8));
  return numbers;
}

struct Fixture {
  explicit Fixture(std::int64_t length = 6, ModelConfig config = small_config())
      : model(random_model(config)),
        tokens(random_tokens(model.config(), {1, length})),
        run(model.run_with_cache(tokens)) {}

  HookedTransformer model;
  at::Tensor tokens;
  CachedRun run;
};

TEST(Page, SaysWhichModelAndTokens) {
  const Fixture made;
  Page page(made.model, made.run.cache, {.title = "A </script> title"});
  page.add_note("a note");
  page.begin({.title = "First", .about = "About.", .code = {.shell = "hooked run"}});
  page.add_text("text </script><b>");
  const Document data = data_of(page);
  EXPECT_EQ(data["format"], "hooked report 1");
  EXPECT_EQ(data["title"], "A </script> title");
  EXPECT_EQ(data["model"]["fingerprint"], made.model.identity()->fingerprint);
  EXPECT_EQ(data["notes"], Document({"a note"}));
  EXPECT_EQ(data["tokens"].size(), 6U);
  EXPECT_EQ(data["tokens"][2], made.tokens[0][2].item<std::int64_t>());
  EXPECT_EQ(data["sections"][0]["code"], Document({{"shell", "hooked run"}}));
  EXPECT_EQ(data["sections"][0]["parts"][0]["text"], "text </script><b>");
  EXPECT_EQ(page.sections(), std::vector<std::string>{"First"});
  EXPECT_THAT(page.html(), HasSubstr("<title>A &lt;/script> title</title>"));
}

TEST(Page, LoadsNothing) {
  const Fixture made;
  Page page(made.model, made.run.cache);
  page.add_attention(made.run.cache);
  const std::string html = page.html();
  for (const char* loads : {"src=\"http", "href=\"http", "@import", "url(http", "fetch(", "<link"})
    EXPECT_EQ(html.find(loads), std::string::npos) << loads;
}

TEST(Page, PatternsAreThoseOfTheRun) {
  const Fixture made;
  Page page(made.model, made.run.cache);
  page.add_attention(made.run.cache);
  page.add_attention(Input(made.tokens));
  const Document parts = parts_of(page);
  EXPECT_EQ(parts[0], parts[1]) << "of runs of its own";
  EXPECT_EQ(parts[0]["form"], "whole");
  EXPECT_EQ(parts[0]["causal"], true);
  const auto numbers = numbers_of(parts[0]["values"]);
  std::size_t next = 0;
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    const at::Tensor pattern = made.run.cache[act::pattern(layer)][0];
    for (std::int64_t head = 0; head < 4; ++head) {
      for (std::int64_t query = 0; query < 6; ++query) {
        for (std::int64_t key = 0; key <= query; ++key)
          EXPECT_NEAR(numbers.at(next++) / 65535.0, pattern[head][query][key].item<double>(), 1e-5);
      }
    }
  }
  EXPECT_EQ(next, numbers.size());
}

TEST(Page, LongPromptsKeepTheStrongestKeys) {
  ModelConfig config = small_config();
  config.n_ctx = 300;
  config.n_layers = 1;
  const Fixture made(290, config);
  Page page(made.model, made.run.cache);
  page.add_attention(made.run.cache);
  const Document part = parts_of(page)[0];
  EXPECT_EQ(part["form"], "strongest");
  EXPECT_EQ(part["kept"], 32);
  const auto values = numbers_of(part["values"]), at = numbers_of(part["at"]),
             means = numbers_of(part["means"]);
  ASSERT_EQ(values.size(), 4U * 290 * 32);
  const at::Tensor pattern = made.run.cache[act::pattern(0)][0].to(at::kDouble);
  for (const std::int64_t head : {0, 3}) {
    for (const std::int64_t query : {0, 5, 289}) {
      const auto [sizes, keys] = pattern[head][query].sort(-1, /*descending=*/true);
      for (std::int64_t k = 0; k < 32; ++k) {
        const std::size_t place = static_cast<std::size_t>((head * 290 + query) * 32 + k);
        if (sizes[k].item<double>() == 0) {
          EXPECT_EQ(at[place], 65535) << "no more";
          continue;
        }
        EXPECT_NEAR(values[place] / 65535.0, sizes[k].item<double>(), 1e-5);
        EXPECT_NEAR(pattern[head][query][at[place]].item<double>(), sizes[k].item<double>(), 1e-12);
      }
    }
  }
  ASSERT_EQ(means.size(), 4U * 10 * 10);
  EXPECT_NEAR(means[10 + 0] / 65535.0, pattern[0].slice(0, 32, 64).slice(1, 0, 32).mean().item<double>(),
              2e-5);
  EXPECT_NEAR(means[99] / 65535.0, pattern[0].slice(0, 288, 290).slice(1, 288, 290).mean().item<double>(),
              2e-5);
}

TEST(Page, PaddingIsLeftOut) {
  const Fixture made;
  const at::Tensor padded = at::cat({at::zeros({1, 2}, at::kLong), made.tokens}, 1);
  at::Tensor mask = at::ones({1, 8}, at::kLong);
  mask.slice(1, 0, 2).zero_();
  const auto run = made.model.run_with_cache({padded, {.attention_mask = mask}});
  Page page(made.model, run.cache), whole(made.model, made.run.cache);
  page.add_attention(run.cache);
  page.add_next(run.logits());
  whole.add_attention(made.run.cache);
  whole.add_next(made.run.logits());
  const Document data = data_of(page);
  EXPECT_EQ(data["tokens"], data_of(whole)["tokens"]);
  EXPECT_EQ(data["first_column"], 2);
  const auto own = numbers_of(parts_of(page)[0]["values"]), other = numbers_of(parts_of(whole)[0]["values"]);
  ASSERT_EQ(own.size(), other.size());
  for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(own[i], other[i], 2);
  EXPECT_EQ(parts_of(page)[1]["top"].size(), 6U);
}

TEST(Page, TheLensAndWhatComesNextAreTheModels) {
  const Fixture made;
  Page page(made.model, made.run.cache);
  page.add_next(made.run.logits(), 3);
  page.add_lens(logit_lens(made.model, made.run.cache, {.positions = {}, .top_k = 2}));
  const Document parts = parts_of(page);
  const at::Tensor probabilities = made.run.logits()[0].to(at::kDouble).softmax(-1);
  for (std::int64_t column = 0; column < 6; ++column) {
    const auto& top = parts[0]["top"][static_cast<std::size_t>(column)];
    ASSERT_EQ(top.size(), 3U);
    EXPECT_EQ(top[0][0], probabilities[column].argmax().item<std::int64_t>());
    EXPECT_NEAR(top[0][1].get<double>(), probabilities[column].max().item<double>(), 1e-5);
    const auto& last = parts[1]["top"].back()[static_cast<std::size_t>(column)];
    EXPECT_EQ(last[0][0], top[0][0]) << "the last point is what the run predicts";
  }
  EXPECT_EQ(parts[1]["points"].size(), 4U);
  EXPECT_EQ(parts[1]["points"].back(), "blocks.2.hook_resid_post");
}

TEST(Page, GridsKeepTheirNumbers) {
  const Fixture made;
  Page page(made.model, made.run.cache);
  const Grid grid(at::tensor({1.0, std::nan(""), -2.5, 1e-30}, at::kDouble).view({2, 2}),
                  {{"layer", {"0", "1"}}, {"head", {"a", "b"}}}, {.title = "t", .unit = "u"});
  page.add_heat_map(grid);
  page.add_bars(grid.slice("layer", 0));
  page.add_tokens(Grid(at::arange(6, at::kDouble), {{"pos", {"0", "1", "2", "3", "4", "5"}}},
                       {.title = "column", .unit = "n"}));
  const Document parts = parts_of(page);
  EXPECT_EQ(parts[0]["values"], Document::parse("[[1.0, null], [-2.5, 1e-30]]"));
  EXPECT_EQ(parts[0]["axes"][1]["labels"], Document({"a", "b"}));
  EXPECT_EQ(parts[1]["svg"], bar_plot_svg(grid.slice("layer", 0)));
  EXPECT_EQ(parts[2]["rows"][0]["values"], Document({0.0, 1.0, 2.0, 3.0, 4.0, 5.0}));
  EXPECT_THROW(page.add_tokens(grid), ShapeError);
  EXPECT_THROW(page.add_picture("<svg onload=alert(1)>"), ConfigError);
}

TEST(Page, FeaturesAreThoseThatFire) {
  const Fixture made;
  const auto spliced = made.model.with_dictionary(random_autoencoder("blocks.0.hook_resid_post", 8));
  const auto run = spliced.run_with_cache(made.tokens, act::sae_acts_post);
  const Address features = act::sae_acts_post(act::resid_post(0));
  Page page(spliced, run.cache);
  page.add_features(run.cache, features, {.count = 3}, 2);
  const auto firing = firing_features(run.cache, features, {.count = 3});
  const Document list = parts_of(page)[0]["features"];
  ASSERT_EQ(list.size(), firing.size());
  const at::Tensor codes = run.cache[features][0];
  const at::Tensor logits = feature_logits(spliced, features, {firing[0].feature});
  EXPECT_EQ(list[0]["name"], std::to_string(firing[0].feature));
  EXPECT_NEAR(list[0]["values"][static_cast<std::size_t>(firing[0].column)].get<double>(), firing[0].largest,
              1e-4);
  EXPECT_NEAR(list[0]["values"][1].get<double>(), codes[1][firing[0].feature].item<double>(), 1e-4);
  EXPECT_EQ(list[0]["raises"][0][0], logits[0].argmax().item<std::int64_t>());
  EXPECT_EQ(list[0]["lowers"][0][0], logits[0].argmin().item<std::int64_t>());
}

TEST(Page, FeaturesHaveTheExamplesOfAHarvest) {
  const TempFolder folder;
  const Fixture made;
  const auto spliced = made.model.with_dictionary(random_autoencoder("blocks.0.hook_resid_post", 8));
  const Address features = act::sae_acts_post(act::resid_post(0));
  harvest(spliced, Corpus::of({std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7}}), folder.path() / "found",
          {.names = features, .contexts = {.length = 5}},
          {.reduce = {.examples = 2, .example_before = 1, .example_after = 1}});
  const auto found = FeatureExamples::load(folder.path() / "found").at(features.to_string());
  const auto run = spliced.run_with_cache(made.tokens, act::sae_acts_post);
  Page page(spliced, run.cache);
  page.add_features(run.cache, features, {.count = 3}, 2, found);
  const Document part = parts_of(page)[0];
  EXPECT_EQ(part["rows"], 7);
  for (const Document& shown : part["features"]) {
    const std::int64_t feature = std::stoll(shown["name"].get<std::string>());
    EXPECT_EQ(shown["fired"], found.fired[feature].item<std::int64_t>());
    const Document& examples = shown["examples"];
    EXPECT_EQ(std::ssize(examples), std::min<std::int64_t>(2, shown["fired"]));
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const auto k = static_cast<std::int64_t>(i);
      // Document 0 is 1, 2, ... 7, in contexts of 5 and 2: a token is its offset and 1.
      const std::int64_t offset = found.offsets[feature][k].item<std::int64_t>(), token = offset + 1;
      EXPECT_EQ(examples[i]["ids"][examples[i]["at"].get<std::size_t>()], token);
      EXPECT_EQ(examples[i]["at"], token == 1 || token == 6 ? 0 : 1);
      EXPECT_EQ(examples[i]["ids"].size(), token == 1 || token >= 5 ? 2U : 3U);
      EXPECT_NEAR(examples[i]["value"].get<double>(), found.values[feature][k].item<double>(), 1e-4);
    }
  }
  const auto other =
      made.model.with_dictionary(random_autoencoder("blocks.0.hook_resid_post", 8, at::kFloat, 2));
  Page wrong(other, other.run_with_cache(made.tokens, act::sae_acts_post).cache);
  EXPECT_THROW(wrong.add_features(run.cache, features, {}, 2, found), HookError);
}

TEST(Page, RefusesWhatItIsNotAbout) {
  const Fixture made;
  const at::Tensor two = random_tokens(made.model.config(), {2, 6});
  EXPECT_THROW(Page(made.model, made.model.run_with_cache(two).cache), ShapeError);
  Page page(made.model, made.run.cache);
  EXPECT_THROW(page.add_next(made.run.logits().slice(1, 0, 3)), ShapeError);
  const auto without = made.model.run_with_cache(made.tokens, act::resid_post);
  EXPECT_THROW(page.add_attention(without.cache), HookError);
}

TEST(Page, FilesOfOthersAreNotReplaced) {
  const TempFolder folder;
  const Fixture made;
  const Page page(made.model, made.run.cache);
  page.save(folder.path() / "a.html");
  page.save(folder.path() / "a.html");
  write_file(folder.path() / "b.html", "<!doctype html><p>mine");
  EXPECT_THROW(page.save(folder.path() / "b.html"), IoError);
  EXPECT_NO_THROW(page.save(folder.path() / "b.html", Overwrite::any));
  EXPECT_THROW(page.save(folder.path() / "a.txt"), IoError);
}

}  // namespace
}  // namespace hooked::page_test
