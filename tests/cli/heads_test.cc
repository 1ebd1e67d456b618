// `hooked heads`: the numbers of the library.
#include "hooked/analysis/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <filesystem>

#include "hooked/analysis/attention_grid.h"
#include "hooked/analysis/repetition.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/running_program.h"

namespace hooked::heads_cli_test {
namespace {

class HeadsTest : public CliTest {
 protected:
  using Words = std::vector<std::string>;

  Words with(const Words& more) const {
    Words words{"heads", model(), "--dtype", "float64"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  HookedTransformer in_float64() const { return HookedTransformer::load(model(), {.dtype = at::kDouble}); }
};

TEST_F(HeadsTest, JsonHasTheScoresOfTheLibrary) {
  const auto json =
      succeed(with({"--tokens", "1,2,3,1,2", "--tokens", "4,5,6,7,4", "--score", "induction,entropy",
                    "--measure", "mul", "--exclude-bos", "--per-row", "--json"}))
          .json();
  const auto model = in_float64();
  const auto tokens = at::tensor({1, 2, 3, 1, 2, 4, 5, 6, 7, 4}, at::kLong).view({2, 5});
  const auto cache = model.run_with_cache(tokens, act::pattern).cache;
  HeadScoreOptions options{
      .tokens = tokens, .measure = HeadMeasure::mul, .exclude_bos = true, .rows = HeadRows::each};
  const auto induction = head_scores(cache, HeadScore::induction, options);
  options.measure = HeadMeasure::share;
  const auto entropy = head_scores(cache, HeadScore::entropy, options);
  ASSERT_EQ(json["scores"].size(), 2u);
  for (const auto& [name, grid] : {std::pair{"induction", induction}, {"entropy", entropy}}) {
    const auto& shown = json["scores"][name];
    EXPECT_EQ(shown["title"], grid.title());
    EXPECT_EQ(shown["axes"][0]["name"], "row");
    for (int row = 0; row < 2; ++row)
      EXPECT_NEAR(shown["values"][row][1][2].get<double>(), grid.at({row, 1, 2}), 1e-9) << name;
  }
  EXPECT_EQ(json["tokens"][1][4], 4);
  EXPECT_FALSE(json.contains("repetition"));
}

TEST_F(HeadsTest, RandomTokensSaidTwice) {
  const auto json = succeed(with({"--half", "3", "--rows", "2", "--seed", "5", "--json"})).json();
  const auto model = in_float64();
  auto options = repeated_tokens_of(model);
  options.rows = 2;
  options.half = 3;
  options.seed = 5;
  const auto scores = repetition_scores(model, options);
  EXPECT_NEAR(json["repetition"]["loss"]["values"][1][1].get<double>(), scores.loss.at({1, 1}), 1e-9);
  EXPECT_NEAR(json["repetition"]["accuracy"]["values"][0][0].get<double>(), scores.accuracy.at({0, 0}), 1e-9);
  EXPECT_EQ(json["scores"].size(), 3u);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["tokens"].size(), 2u);
  EXPECT_EQ(json["tokens"][0].size(), 6u);

  const auto text = succeed(with({"--half", "3", "--rows", "2"})).out;
  EXPECT_NE(text.find("2 rows of 3 random tokens, repeated once"), std::string::npos) << text;
  EXPECT_NE(text.find("second half"), std::string::npos);
  EXPECT_NE(text.find("Attention to the previous token"), std::string::npos);
}

TEST_F(HeadsTest, FilesOfOneScoreAndOfSeveral) {
  succeed(with({"--tokens", "1,2,1,2", "--score", "first_token", "--out", path("one.csv")}));
  EXPECT_EQ(Grid::load(path("one.csv")).axis("head").labels.size(), 3u);
  succeed(with({"--tokens", "1,2,1,2", "--score", "induction,distance", "--out", path("h.json")}));
  EXPECT_EQ(Grid::load(path("h.induction.json")).unit(), "share of attention");
  EXPECT_EQ(Grid::load(path("h.distance.json")).unit(), "tokens");
  EXPECT_FALSE(std::filesystem::exists(path("h.json")));
}

// The attention itself: of one head as a table, of a layer as panels, tokens as labels.
TEST_F(HeadsTest, PatternsAreTheLibrarysWithTheirTokens) {
  write_tokenizer();
  const auto head = succeed(with({"--text", "w2 w3", "--pattern", "1.2", "--out", path("head.svg")})).out;
  EXPECT_TRUE(
      head.starts_with("Attention, layer 1, head 2 (share of attention)\n"
                       "query \\ key  0 <bos>   1 w2   2 w3\n"
                       "    0 <bos>    1.000\n"))
      << head;
  EXPECT_NE(read("head.svg").find("1 w2"), std::string::npos);
  const auto model = in_float64();
  const auto cache = model.run_with_cache("w2 w3", act::pattern).cache;
  const Json json = succeed(with({"--text", "w2 w3", "--pattern", "-1", "--json"})).json();
  const Grid layer = attention_grid(model, cache, act::pattern(1));
  ASSERT_EQ(json["patterns"].size(), 1u);
  EXPECT_EQ(json["patterns"][0]["axes"][2]["labels"], Json::parse(R"(["0 <bos>", "1 w2", "2 w3"])"));
  EXPECT_NEAR(json["patterns"][0]["values"][2][2][1].get<double>(), layer.at({2, 2, 1}), 1e-9);
  EXPECT_EQ(json["tokens"], Json::parse("[[0, 2, 3]]"));
  // Each row has its own.
  succeed(with({"--tokens", "1,2,3", "--tokens", "4,5,6", "--pattern", "0.1", "--out", path("rows.csv")}));
  EXPECT_EQ(Grid::load(path("rows.row-1.csv")).title(), "Attention, layer 0, head 1, row 1");
  EXPECT_FALSE(std::filesystem::exists(path("rows.csv")));
  expect_failure(with({"--tokens", "1,2", "--pattern", "1.x"}), 2, "LAYER.HEAD such as 5.3");
  expect_failure(with({"--tokens", "1,2", "--pattern", "2"}), 1, "layer 2");
  expect_failure(with({"--tokens", "1,2", "--pattern", "1.3"}), 1, "head");
  expect_failure(with({"--half", "3", "--pattern", "1"}), 2, "--pattern");
  expect_failure(with({"--tokens", "1,2", "--pattern", "1", "--score", "entropy"}), 2, "--pattern");
}

TEST_F(HeadsTest, EditsHold) {
  const auto json = succeed(with({"--tokens", "1,2,3", "--score", "first_token", "--json", "--edit",
                                  "blocks.0.attn.hook_pattern[head=1] zero"}))
                        .json();
  EXPECT_EQ(json["scores"]["first_token"]["values"][0][1], 0.0);
  EXPECT_NE(json["scores"]["first_token"]["values"][0][0], 0.0);
}

TEST_F(HeadsTest, AnInterruptedOneLeavesWhatIsThere) {
  // After longer and longer waits, until some rows were scored.
  const auto interrupted = [&](const Words& more) {
    std::string text;
    for (useconds_t wait = 50'000; wait < 10'000'000; wait *= 2) {
      RunningProgram program(with(more), path("stderr"));
      EXPECT_TRUE(program.wait_for_guard());
      ::usleep(wait);
      program.interrupt();
      text = program.read();
      EXPECT_TRUE(ended_by_interrupt(program.wait()));
      const bool none =
          text.find("early: 0 of") != std::string::npos || text.find("\"scores\":{}") != std::string::npos;
      if (!none) break;
    }
    return text;
  };
  const auto json = parse_json(interrupted({"--half", "4", "--rows", "60000", "--per-row", "--json"}),
                               {.bytes = std::size_t{1} << 28});
  EXPECT_EQ(json["complete"], false);
  const auto& scores = json["scores"]["induction"]["values"];
  ASSERT_EQ(scores.size(), 60000u);
  EXPECT_TRUE(scores[0][1][2].is_number());
  EXPECT_TRUE(scores[59999][1][2].is_null());
  EXPECT_FALSE(json.contains("repetition")) << "what was not begun has no numbers";
  const auto text = interrupted({"--half", "4", "--rows", "60000"});
  EXPECT_NE(text.find("Attention to the previous token"), std::string::npos) << text;
  EXPECT_NE(text.find("\nended early: "), std::string::npos);
  EXPECT_NE(text.find(" of 60,000 rows"), std::string::npos) << text;
}

TEST_F(HeadsTest, SaysWhatDoesNotFit) {
  expect_failure({"heads", model()}, 2, "--half");
  expect_failure(with({"--tokens", "1,2", "--half", "3"}), 2, "--half");
  expect_failure(with({"--tokens", "1,2", "--score", "inducton"}), 2, "inducton");
  expect_failure(with({"--tokens", "1,2", "--score", "entropy,entropy"}), 2, "twice");
  expect_failure(with({"--tokens", "1,2", "--rows", "3"}), 2, "--half");
  expect_failure(with({"--half", "1"}), 2, "at least 2");
  expect_failure(with({"--tokens", "1,2", "--out", "x.png"}), 2, "x.png");
  expect_failure(with({"--tokens", "1,2,3", "--score", "induction"}), 1, "more than once");
  expect_failure(with({"--tokens", "1,2,3", "--of", "cross"}), 1, "cross_attn");
}

}  // namespace
}  // namespace hooked::heads_cli_test
