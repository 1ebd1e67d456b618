// `hooked weights`: the numbers of the library.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <filesystem>

#include "hooked/analysis/circuits.h"
#include "hooked/analysis/singular_directions.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/running_program.h"

namespace hooked::weights_cli_test {
namespace {

class WeightsTest : public CliTest {
 protected:
  using Words = std::vector<std::string>;

  Words with(const Words& more) const {
    Words words{"weights", model(), "--dtype", "float64"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  HookedTransformer in_float64() const { return HookedTransformer::load(model(), {.dtype = at::kDouble}); }
};

TEST_F(WeightsTest, CompositionIsTheLibrarysBesideRandomHeads) {
  const auto json = succeed(with({"--composition", "q,v", "--draws", "20", "--seed", "3", "--json"})).json();
  const auto model = in_float64();
  EXPECT_EQ(json["complete"], true);
  ASSERT_EQ(json["composition"].size(), 2u);
  for (const auto& [word, input] : {std::pair{"q", HeadInput::query}, {"v", HeadInput::value}}) {
    const auto expected = composition_scores(model, input, {.random_draws = 20, .seed = 3});
    const auto& shown = json["composition"][word];
    EXPECT_EQ(shown["scores"]["title"], expected.scores.title());
    EXPECT_NEAR(shown["scores"]["values"][0][1][1][2].get<double>(), expected.scores.at({0, 1, 1, 2}), 1e-12);
    EXPECT_TRUE(shown["scores"]["values"][1][1][0][2].is_null());
    EXPECT_NEAR(shown["random_mean"].get<double>(), expected.random_mean, 1e-12);
    EXPECT_NEAR(shown["random_deviation"].get<double>(), expected.random_deviation, 1e-12);
    EXPECT_EQ(shown["random_draws"], 20);
  }
  const auto bare = succeed(with({"--composition", "k", "--bare", "--json"})).json();
  EXPECT_NEAR(
      bare["composition"]["k"]["scores"]["values"][0][0][1][0].get<double>(),
      composition_scores(model, HeadInput::key, {.circuits = {.norms = false}}).scores.at({0, 0, 1, 0}),
      1e-12);
}

TEST_F(WeightsTest, TheLargestPairsStandInATable) {
  const auto text = succeed(with({"--composition", "k", "--largest", "2"})).out;
  EXPECT_NE(text.find("Composition by keys"), std::string::npos) << text;
  EXPECT_NE(text.find("random heads"), std::string::npos);
  EXPECT_NE(text.find("deviations above random"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
}

TEST_F(WeightsTest, CopyingIsTheLibrarys) {
  const auto json =
      succeed(with({"--copying", "--top-k", "2", "--sample", "6", "--seed", "1", "--json"})).json();
  const auto expected = copying_scores(in_float64(), {.top_k = 2, .tokens = 6, .seed = 1});
  EXPECT_EQ(json["complete"], true);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      EXPECT_NEAR(json["eigenvalues"]["values"][layer][head].get<double>(),
                  expected.eigenvalues.at({layer, head}), 1e-10);
      EXPECT_NEAR(json["top_k"]["values"][layer][head].get<double>(), expected.top_k.at({layer, head}),
                  1e-10);
    }
  }
  const auto text = succeed(with({"--copying"})).out;
  EXPECT_NE(text.find("Eigenvalues of the full OV circuit"), std::string::npos) << text;
  EXPECT_NE(text.find("Tokens among the 5 that they raise most"), std::string::npos);
}

// Each word of --singular is the library's matrix of that name.
TEST_F(WeightsTest, SingularDirectionsAreTheLibrarys) {
  const auto model = in_float64();
  for (const auto of : {SingularOf::ov_written, SingularOf::ov_read, SingularOf::qk_query, SingularOf::qk_key,
                        SingularOf::mlp_in, SingularOf::mlp_out}) {
    const bool of_head = of < SingularOf::mlp_in;
    const auto expected = singular_directions(
        model, {.of = of, .layer = 1, .index = of_head ? 2 : 0, .directions = 3, .top_k = 2});
    const auto name = expected.title.substr(0, expected.title.find(' '));
    const auto json = succeed(with({"--singular", name, "--layer", "-1", "--index", of_head ? "2" : "0",
                                    "--directions", "3", "--top-k", "2", "--json"}))
                          .json();
    EXPECT_EQ(json["title"], expected.title);
    EXPECT_EQ(json["complete"], true);
    ASSERT_EQ(json["directions"].size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto& shown = json["directions"][i];
      EXPECT_NEAR(shown["value"].get<double>(), expected.top[i].value, 1e-10) << name;
      EXPECT_EQ(shown["raised"][1]["id"], expected.top[i].raised[1].token) << name;
      EXPECT_NEAR(shown["lowered"][0]["logit"].get<double>(), expected.top[i].lowered[0].logit, 1e-10)
          << name;
    }
  }
  const auto text = succeed(with({"--singular", "mlp_out", "--directions", "2"})).out;
  EXPECT_NE(text.find("Singular directions of mlp_out 0"), std::string::npos) << text;
}

TEST_F(WeightsTest, FilesOfOneGridAndOfSeveral) {
  succeed(with({"--composition", "q", "--out", path("one.json")}));
  EXPECT_EQ(Grid::load(path("one.json")).axes().size(), 4u);
  succeed(with({"--composition", "q,k", "--out", path("c.safetensors")}));
  EXPECT_EQ(Grid::load(path("c.q.safetensors")).title(), "Composition by queries");
  EXPECT_EQ(Grid::load(path("c.k.safetensors")).title(), "Composition by keys");
  succeed(with({"--copying", "--out", path("copies.csv")}));
  EXPECT_EQ(Grid::load(path("copies.eigenvalues.csv")).axis("head").labels.size(), 3u);
  EXPECT_TRUE(std::filesystem::exists(path("copies.top_k.csv")));
  succeed(with({"--singular", "ov_read", "--out", path("logits.json")}));
  EXPECT_EQ(Grid::load(path("logits.json")).axis("vocab").labels.size(), 11u);
}

TEST_F(WeightsTest, AnInterruptedCompositionLeavesWhatIsThere) {
  ModelConfig deep = config();
  deep.n_layers = 400;
  deep.mlp = MlpKind::none;
  deep.d_mlp = 0;
  HookedTransformer::create(deep, {.seed = 1, .initializer_range = 0.5}).save(folder_ / "deep");
  RunningProgram program({"weights", path("deep"), "--composition", "q,k,v", "--json", "--draws", "2"},
                         path("stderr"));
  ASSERT_TRUE(program.wait_for_guard());
  program.interrupt();
  const Json json = parse_json(program.read(), {.bytes = std::size_t{1} << 26});
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  EXPECT_EQ(json["complete"], false);
  EXPECT_EQ(json["composition"]["q"]["complete"], false);
  EXPECT_EQ(json["composition"]["q"]["random_draws"], 0);
  EXPECT_TRUE(json["composition"]["q"]["random_mean"].is_null());
  EXPECT_FALSE(json["composition"].contains("v"));
  EXPECT_TRUE(json["composition"]["q"]["scores"]["values"][398][0][399][0].is_null());
}

TEST_F(WeightsTest, SaysWhatDoesNotFit) {
  expect_failure({"weights", model()}, 2, "--composition");
  expect_failure(with({"--copying", "--composition", "q"}), 2, "--copying");
  expect_failure(with({"--composition", "q,x"}), 2, "x");
  expect_failure(with({"--composition", "q,q"}), 2, "twice");
  expect_failure(with({"--singular", "ov"}), 2, "ov");
  expect_failure(with({"--copying", "--layer", "1"}), 2, "--singular");
  expect_failure(with({"--composition", "q", "--top-k", "2"}), 2, "--copying or --singular");
  expect_failure(with({"--copying", "--out", "x.png"}), 2, "x.png");
  expect_failure(with({"--composition", "q", "--draws", "1"}), 1, "at least 2");
  expect_failure(with({"--singular", "ov_written", "--index", "3"}), 1, "no head 3");
  expect_failure(with({"--singular", "mlp_in", "--layer", "2"}), 1, "no layer 2");
}

}  // namespace
}  // namespace hooked::weights_cli_test
