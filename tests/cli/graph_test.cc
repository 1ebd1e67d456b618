// hooked graph: the library's graph, its file, paths with the heads that carry them, and what is refused.
#include "hooked/analysis/graph_file.h"
#include "hooked/analysis/graph_pruning.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/random_dictionaries.h"

namespace hooked::graph_command_test {
namespace {

class GraphCommand : public CliTest {
 protected:
  GraphCommand() {
    write_tokenizer();
    const auto transcoders = random_transcoders(config(), {});
    for (std::size_t layer = 0; layer < transcoders.size(); ++layer)
      transcoders[layer].save(path(fmt::format("transcoder{}", layer)));
  }

  std::vector<std::string> call(const std::vector<std::string>& more) const {
    std::vector<std::string> words{
        "graph",    model(),   "--dictionary",   path("transcoder0"), "--dictionary", path("transcoder1"),
        "--tokens", "1,2,3,4", "--no-processing"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Json succeed_with_notes(const std::vector<std::string>& words) const {
    const auto result = hooked(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.json();
  }

  AttributionGraph graph(const AttributionGraphOptions& options = {}) const {
    const auto loaded = HookedTransformer::load(model(), {.processing = WeightProcessing::none()});
    return attribute_graph(loaded,
                           {{Dictionary::load(path("transcoder0")), Dictionary::load(path("transcoder1"))}},
                           at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4}), options);
  }
};

TEST_F(GraphCommand, IsThatOfTheLibrary) {
  const Json found = succeed(call({"--json", "--answer-token", "5,6", "--out", path("g.json")})).json();
  const auto whole = graph({.logit_tokens = {5, 6}});
  const auto left = pruned(whole);
  EXPECT_EQ(found["active"], whole.active);
  EXPECT_EQ(found["features"], whole.features);
  EXPECT_EQ(found["errors"], whole.errors);
  EXPECT_NEAR(found["replacement"].get<double>(), graph_scores(whole).replacement, 1e-5);
  EXPECT_NEAR(found["completeness"].get<double>(), graph_scores(whole).completeness, 1e-5);
  EXPECT_EQ(found["pruned"]["features"], left.features);
  ASSERT_EQ(found["logits"].size(), 2U);
  EXPECT_EQ(found["logits"][0]["id"], 5);
  EXPECT_EQ(found["complete"], true);
  const auto file = load_graph(path("g.json"));
  EXPECT_EQ(file.features, left.features);
  EXPECT_EQ(file.logits, 2);
  const auto paths = strongest_paths(left, 10);
  ASSERT_EQ(found["paths"].size(), paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Json& path = found["paths"][i];
    EXPECT_NEAR(path["influence"].get<double>(), paths[i].influence, 1e-5) << i;
    EXPECT_EQ(path["nodes"].size(), path["heads"].size() + 1);
    EXPECT_EQ(path["nodes"].back()["kind"], "logit");
  }
}

TEST_F(GraphCommand, TakesTheActivationThatIsReadFromTheCommandLine) {
  DictionaryConfig unplaced = Dictionary::load(path("transcoder0")).config();
  unplaced.input = "";
  Dictionary(unplaced, Dictionary::load(path("transcoder0")).weights()).save(path("unplaced"));
  const auto found = [&](const std::string& dictionary) {
    return succeed_with_notes(
        {"graph", model(), "--dictionary", dictionary, "--tokens", "1,2,3,4", "--no-processing", "--json"});
  };
  const Json right = found(path("transcoder0")), same = found(path("unplaced") + "@blocks.0.mlp.hook_in");
  EXPECT_EQ(same["paths"], right["paths"]);
  EXPECT_NE(found(path("unplaced") + "@blocks.0.hook_mlp_in")["paths"], right["paths"]);
}

TEST_F(GraphCommand, TakesNeurons) {
  const Json found =
      succeed({"graph", model(), "--neurons", "--tokens", "1,2,3,4", "--no-processing", "--json"}).json();
  EXPECT_EQ(found["errors"], 0);
  EXPECT_NEAR(found["replacement"].get<double>(), 1, 1e-9);
}

TEST_F(GraphCommand, PrintsPathsByTheirTokens) {
  const auto result = hooked({"graph", model(), "--neurons", "--text", "w2 w3", "--no-processing",
                              "--skip-first", "0", "--paths", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  for (const char* part : {"active features", "replacement score 1.000", "strongest paths", "-> logit '"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << '\n' << result.out;
}

TEST_F(GraphCommand, RefusesWhatDoesNotFit) {
  expect_failure({"graph", model(), "--tokens", "1,2"}, 2,
                 "expected --dictionary with transcoders, or --neurons");
  expect_failure(call({"--neurons"}), 2, "--neurons");
  expect_failure(call({"--out", path("g.txt")}), 2, ".json");
  expect_failure(call({"--node-share", "2"}), 2, "--node-share");
  expect_failure(call({"--answer-token", "99"}), 1, "there is no token 99");
  expect_failure(call({"--tokens", "4,3,2,1"}), 1, "one prompt");
  expect_failure(call({"--out", path("transcoder0/cfg.json"), "--force"}), 1, "cfg.json");
}

}  // namespace
}  // namespace hooked::graph_command_test
