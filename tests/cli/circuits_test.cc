// `hooked circuits`: the numbers of the library.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "hooked/hooked.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/running_program.h"

namespace hooked::circuits_cli_test {
namespace {

class CircuitsTest : public CliTest {
 protected:
  using Words = std::vector<std::string>;

  Words with(const Words& more) const {
    Words words{"circuits",           model(),   "--dtype",        "float64", "--clean-tokens",  "1,2,3,4",
                "--corrupted-tokens", "1,5,3,4", "--answer-token", "6",       "--against-token", "7"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  HookedTransformer exact() const { return HookedTransformer::load(model(), {.dtype = at::kDouble}); }
  static SweepOptions sweep(const HookedTransformer& model) {
    const auto row = [](std::vector<std::int64_t> ids) { return at::tensor(ids, at::kLong).unsqueeze(0); };
    return {.from = model.run_with_cache(row({1, 5, 3, 4}), act::defaults).cache,
            .into = row({1, 2, 3, 4}),
            .metric = logit_difference(6, 7)};
  }
};

TEST_F(CircuitsTest, JsonHasTheNumbersOfTheLibrary) {
  const auto json = succeed(with({"--top", "3", "--judge", "5", "--seed", "2", "--check", "2", "--save",
                                  path("circuit.json"), "--out", path("scores.json"), "--json"}))
                        .json();
  const auto model = exact();
  const auto report = node_attribution_report(model, {.sweep = sweep(model), .check = 2, .seed = 2});
  ASSERT_EQ(json["scores"]["axes"][0]["labels"].size(), 8u);
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(json["scores"]["values"][static_cast<std::size_t>(i)].get<double>(), report.grid.at({i}),
                1e-9);
  EXPECT_EQ(json["check"]["cells"].size(), 4u);
  EXPECT_NEAR(json["check"]["correlation"].get<double>(), report.check->correlation, 1e-9);
  EXPECT_EQ(json["check"]["cells"][0]["labels"][0], report.check->cells[0].labels[0]);
  const Circuit circuit = choose_circuit(model, report.grid, {.count = 3});
  EXPECT_EQ(json["circuit"]["nodes"].get<std::vector<std::string>>(), circuit.nodes());
  EXPECT_EQ(Circuit::load(model, path("circuit.json")), circuit);
  const auto judged = judge_circuit(model, circuit, {.sweep = sweep(model), .sets = 5, .seed = 2});
  EXPECT_NEAR(json["judgement"]["faithfulness"].get<double>(), judged.faithfulness, 1e-9);
  EXPECT_NEAR(json["judgement"]["incompleteness"].get<double>(), judged.incompleteness, 1e-9);
  EXPECT_EQ(json["judgement"]["others"]["values"].size(), 5u);
  EXPECT_TRUE(json["complete"].get<bool>());
  EXPECT_EQ(json["tokens"][0][1], 2);
  EXPECT_EQ(json["corrupted_tokens"][0][1], 5);
  EXPECT_EQ(Grid::load(path("scores.json")).axes()[0].name, "node");
}

TEST_F(CircuitsTest, EdgesAreChosenSavedAndRead) {
  const auto model = exact();
  const auto scores = edge_attribution(model, {.sweep = sweep(model),
                                               .hold = {.norms = true},
                                               .integration = {.over = IntegrateOver::inputs, .steps = 3}});
  const auto json = succeed(with({"--edges", "--steps", "3", "--hold", "norms", "--top", "10", "--greedy",
                                  "--save", path("edges.json"), "--json"}))
                        .json();
  const Circuit circuit = choose_circuit(model, scores, {.count = 10, .greedy = true});
  EXPECT_EQ(json["circuit"]["edges"].size(), static_cast<std::size_t>(circuit.size()));
  EXPECT_EQ(Circuit::load(model, path("edges.json")), circuit);
  const auto judged = succeed(with({"--circuit", path("edges.json"), "--judge", "0", "--json"})).json();
  EXPECT_FALSE(judged.contains("scores"));
  EXPECT_NEAR(judged["judgement"]["faithfulness"].get<double>(),
              judge_circuit(model, circuit, {.sweep = sweep(model), .sets = 0}).faithfulness, 1e-9);
}

TEST_F(CircuitsTest, EdgesArePatchedForACheck) {
  const auto model = exact();
  const auto report = edge_attribution_report(model, {.sweep = sweep(model), .check = 3, .seed = 2});
  const auto json = succeed(with({"--edges", "--check", "3", "--seed", "2", "--json"})).json();
  ASSERT_EQ(json["check"]["cells"].size(), 6u);
  EXPECT_NEAR(json["check"]["correlation"].get<double>(), report.check->correlation, 1e-9);
  EXPECT_EQ(json["check"]["cells"][0]["labels"].get<std::vector<std::string>>(),
            report.check->cells[0].labels);
  EXPECT_NE(succeed(with({"--edges", "--check", "3"})).out.find("6 edges patched"), std::string::npos);
}

TEST_F(CircuitsTest, ShowsWhatItFound) {
  const auto shown = succeed(with({"--top", "3", "--judge", "3", "--top-k", "2"})).out;
  for (const char* part :
       {"Attribution of nodes", "circuit of", "faithfulness", "sets of its size", "faithfulness lost"})
    EXPECT_NE(shown.find(part), std::string::npos) << part;
}

TEST_F(CircuitsTest, PrintsWhatIsThereWhenItIsEnded) {
  RunningProgram program(with({"--edges", "--top", "12", "--judge", "100000"}), path("stderr"));
  ASSERT_TRUE(program.wait_for_guard());
  program.interrupt();
  const std::string text = program.read();
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  EXPECT_NE(text.find("ended early"), std::string::npos);
}

TEST_F(CircuitsTest, NothingIsChosenWhereAllGradientsAreZero) {
  for (const char* metric : {"kl_divergence", "js_divergence"}) {
    for (const Words& what : {Words{}, Words{"--edges"}}) {
      Words words = with({"--metric", metric, "--top", "2"});
      words.insert(words.end(), what.begin(), what.end());
      expect_failure(words, 1, "the least that there is");
      words.insert(words.end(), {"--steps", "4", "--json"});
      EXPECT_TRUE(succeed(words).json()["complete"].get<bool>());
    }
  }
}

/// If the clean prompt equals the corrupted one, shares are undefined: no number, and no `-nan`.
TEST_F(CircuitsTest, SharesOfNothingAreNoNumbers) {
  const Words words{
      "circuits",           model(),           "--dtype",        "float64", "--clean-tokens",  "1,2,3,4",
      "--corrupted-tokens", "1,2,3,4",         "--answer-token", "6",       "--against-token", "7",
      "--circuit",          path("same.json"), "--judge",        "5"};
  for (const char* circuit :
       {R"({"format": "hooked circuit 1", "kind": "nodes", "nodes": ["head 0.1"]})",
        R"({"format": "hooked circuit 1", "kind": "edges", "edges": [["embed", "logits"]]})"}) {
    write("same.json", circuit);
    Words json = words;
    json.emplace_back("--json");
    const auto judged = succeed(json).json()["judgement"];
    for (const char* share : {"faithfulness", "completeness", "incompleteness", "more_faithful"})
      EXPECT_TRUE(judged[share].is_null()) << share;
    const std::string shown = succeed(words).out;
    EXPECT_NE(shown.find("nan"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("-nan"), std::string::npos) << shown;
  }
}

TEST_F(CircuitsTest, SaysWhatDoesNotFit) {
  expect_failure(with({"--top", "2", "--threshold", "1"}), 2, "--threshold");
  expect_failure(with({"--top", "2", "--greedy"}), 2, "--edges");
  expect_failure(with({"--judge", "3"}), 2, "needs a circuit");
  expect_failure(with({"--save", path("x.json")}), 2, "--top");
  expect_failure(with({"--circuit", path("x.json"), "--top", "2"}), 2, "--circuit");
  expect_failure(with({"--from", "mean_rows"}), 2, "--pairs");
  expect_failure(with({"--metric", "logit,loss"}), 2, "one metric");
  expect_failure(with({"--metric", "rank"}), 1, "moves in steps");
  expect_failure(with({"--hold", "values"}), 2, "values");
  write("circuit.json", R"({"format": "hooked circuit 1", "kind": "nodes", "nodes": ["head 9.9"]})");
  expect_failure(with({"--circuit", path("circuit.json"), "--judge", "1"}), 1, "head 9.9");
  expect_failure({"circuits", model(), "--clean-tokens", "1,2", "--corrupted-tokens", "1,3"}, 2,
                 "nothing says what is scored");
}

}  // namespace
}  // namespace hooked::circuits_cli_test
