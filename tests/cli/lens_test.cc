// `hooked lens` and `hooked attribute`: the numbers of the library.
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/logit_lens.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/running_program.h"

namespace hooked::lens_cli_test {
namespace {

class LensTest : public CliTest {
 protected:
  using Words = std::vector<std::string>;

  Words with(const char* command, const Words& more) const {
    Words words{command, model(), "--tokens", "1,2,3,4", "--dtype", "float64"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  HookedTransformer in_float64() const { return HookedTransformer::load(model(), {.dtype = at::kDouble}); }
  static at::Tensor tokens() { return at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4}); }
};

TEST_F(LensTest, JsonIsWhatTheLensReads) {
  const auto json = succeed(with("lens", {"--top-k", "2", "--answer-token", "5", "--mid", "--json"})).json();
  const auto model = in_float64();
  const auto lens =
      logit_lens(model, model.run_with_cache(tokens()).cache, {.tokens = {5}, .top_k = 2, .mid = true});
  ASSERT_EQ(json["rows"].size(), lens.top.size());
  for (std::size_t i = 0; i < lens.top.size(); ++i) {
    EXPECT_EQ(json["rows"][i]["point"], lens.top[i].name.to_string());
    EXPECT_EQ(json["rows"][i]["position"], 3);
    EXPECT_EQ(json["rows"][i]["next"][1]["id"], lens.top[i].predictions[1].token);
    EXPECT_NEAR(json["rows"][i]["next"][1]["logit"].get<double>(), lens.top[i].predictions[1].logit, 1e-9);
  }
  EXPECT_EQ(json["ranks"]["values"][0][0][2][0], lens.ranks.at({0, 0, 2, 0}));
  EXPECT_EQ(json["probabilities"]["axes"][2]["name"], "point");
  EXPECT_EQ(json["complete"], true);
}

TEST_F(LensTest, PartsAndTextOutput) {
  const auto text =
      succeed(with("lens", {"--parts", "head", "--positions", "0,-1", "--answer-token", "5"})).out;
  EXPECT_NE(text.find("row 0, pos 0"), std::string::npos);
  EXPECT_NE(text.find("head 1.2 "), std::string::npos);
  EXPECT_NE(text.find("Logit lens (rank)"), std::string::npos) << text;
}

TEST_F(LensTest, AttributionIsTheLibrarys) {
  const Words words{"--answer-token", "5", "--against-token", "6", "--grain", "neuron"};
  auto json_words = words;
  json_words.push_back("--json");
  const auto json = succeed(with("attribute", json_words)).json();
  const auto model = in_float64();
  const auto run = model.run_with_cache(tokens());
  const auto grid =
      direct_logit_attribution(model, run.cache, {.answer = 5, .against = 6, .grain = Grain::neuron});
  EXPECT_EQ(json["parts"]["axes"][1]["labels"].get<Words>(), grid.axis("part").labels);
  EXPECT_NEAR(json["parts"]["values"][0][3][0].get<double>(), grid.at({0, 3, 0}), 1e-9);
  EXPECT_EQ(json["complete"], true);
  const auto text = succeed(with("attribute", words)).out;
  const auto logits = run.logits()[0][3];
  EXPECT_NE(
      text.find(fmt::format("all parts together {:.4f} logits", (logits[5] - logits[6]).item<double>())),
      std::string::npos)
      << text;
}

TEST_F(LensTest, SourcesAndFiles) {
  const auto text =
      succeed(with("attribute", {"--answer-token", "5", "--sources", "--out", path("s.csv")})).out;
  EXPECT_NE(text.find("part      from"), std::string::npos) << text;
  EXPECT_EQ(Grid::load(path("s.csv")).axis("key").labels.size(), 4u);
  succeed(with("lens", {"--answer-token", "5", "--out", path("lens.svg")}));
  EXPECT_NE(read("lens.svg").find("resid_post 1"), std::string::npos);
}

// Positions are named by their tokens, in tables and in pictures.
TEST_F(LensTest, NamesTheTokens) {
  write_tokenizer();
  const auto with_text = [&](const char* command, const Words& more) {
    Words words{command, model(), "--text", "w2 w3", "--answer", "w5"};
    words.insert(words.end(), more.begin(), more.end());
    return succeed(words).out;
  };
  const auto parts = with_text("attribute", {"--out", path("parts.svg")});
  EXPECT_NE(parts.find("row 0, position 2 w3\n"), std::string::npos) << parts;
  EXPECT_NE(parts.find("Logits are centred"), std::string::npos) << parts;
  EXPECT_NE(read("parts.svg").find("last w3"), std::string::npos);
  EXPECT_EQ(with_text("attribute", {"--against", "w6"}).find("centred"), std::string::npos)
      << "a difference is the same";
  const auto sources = with_text("attribute", {"--sources"});
  for (const char* key : {" 0 <bos> ", " 1 w2 ", " 2 w3 "})
    EXPECT_NE(sources.find(key), std::string::npos) << sources;
  const auto lens = with_text("lens", {"--positions", "0,1", "--out", path("lens.svg")});
  EXPECT_NE(lens.find("row 0, pos 1 w2\n"), std::string::npos) << lens;
  EXPECT_NE(lens.find("point \\ pos  0 <bos>  1 w2\n"), std::string::npos) << lens;
  EXPECT_NE(read("lens.svg").find("1 w2"), std::string::npos);
  // Each row has tokens of its own.
  const auto rows =
      succeed({"attribute", model(), "--text", "w2 w3", "--text", "w4 w6", "--answer", "w5"}).out;
  EXPECT_NE(rows.find("row 1, position 2 w6\n"), std::string::npos) << rows;
}

// The model has no biases: they are parts, but there is nothing to say about them.
TEST_F(LensTest, DoesNotListWhatIsNothing) {
  const auto parts = succeed(with("attribute", {"--answer-token", "5", "--grain", "head"})).out;
  EXPECT_NE(parts.find("head 0.1 "), std::string::npos) << parts;
  EXPECT_EQ(parts.find("attn bias"), std::string::npos) << parts;
  const auto lens = succeed(with("lens", {"--answer-token", "5", "--parts", "head"})).out;
  EXPECT_NE(lens.find("head 0.1 "), std::string::npos) << lens;
  EXPECT_EQ(lens.find("attn bias"), std::string::npos) << lens;
}

/// A model of many layers and neurons, and what makes it read each of them.
class LongLensTest : public LensTest {
 protected:
  LongLensTest() {
    ModelConfig deep = config();
    deep.n_layers = 150;
    deep.d_mlp = 256;
    HookedTransformer::create(deep, {.seed = 1, .initializer_range = 0.5}).save(folder_ / "deep");
  }
  /// What the program has printed when it is stopped as early as possible while it reads the run. While it
  /// still runs the model nothing is kept, so that it is tried again, and stopped later.
  std::string interrupted(Words words) const {
    const Words input{path("deep"),     "--tokens", "1,2,3,4,5,6,7,8", "--positions", "0,1,2,3,4,5,6,7",
                      "--answer-token", "5"};
    words.insert(words.begin() + 1, input.begin(), input.end());
    ::useconds_t too_early = 0, too_late = 0, wait = 1000;
    for (int attempt = 0; attempt < 60; ++attempt) {
      RunningProgram program(words, path("stderr"));
      EXPECT_TRUE(program.wait_for_guard());
      ::usleep(wait);
      program.interrupt();
      const std::string text = program.read();
      EXPECT_TRUE(ended_by_interrupt(program.wait()));
      if (read("stderr").find("nothing is kept") != std::string::npos) {
        too_early = wait;
      } else if (text.find("ended early") != std::string::npos ||
                 text.find("\"complete\":false") != std::string::npos) {
        EXPECT_NE(read("stderr").find("interrupted, ending after this step"), std::string::npos);
        return text;
      } else {
        too_late = wait;
      }
      if (too_late <= too_early + 100) too_late = 0;  // the machine is not as fast as it was
      wait = too_late > 0 ? (too_early + too_late) / 2 : too_early + too_early / 2 + 1;
    }
    ADD_FAILURE() << "it was never stopped while it read the run";
    return {};
  }
  static Json json_of(const std::string& text) { return parse_json(text, {.bytes = std::size_t{1} << 29}); }
};

TEST_F(LongLensTest, AnInterruptedLensLeavesWhatIsThere) {
  const Json json = json_of(interrupted({"lens", "--parts", "neuron", "--json"}));
  EXPECT_EQ(json["complete"], false);
  EXPECT_GT(json["rows"].size(), 0u);
  const auto points = json["logits"]["axes"][2]["labels"].size();
  EXPECT_LT(json["rows"].size(), 8 * points);
  EXPECT_TRUE(json["logits"]["values"][0][0][0][7].is_number());
  EXPECT_TRUE(json["ranks"]["values"][0][0][points - 1][0].is_null());
  const std::string text = interrupted({"lens", "--parts", "neuron"});
  EXPECT_NE(text.find("row 0, pos 7"), std::string::npos);
  EXPECT_EQ(text.find(" nan"), std::string::npos) << "what was not read is not shown";
  EXPECT_NE(text.find("\nended early: "), std::string::npos) << text.substr(text.size() - 200);
}

TEST_F(LongLensTest, AnInterruptedAttributionLeavesWhatIsThere) {
  const Json json = json_of(interrupted({"attribute", "--grain", "neuron", "--json"}));
  EXPECT_EQ(json["complete"], false);
  const auto& labels = json["parts"]["axes"][1]["labels"];
  const auto mlp_bias = static_cast<std::size_t>(
      std::find(labels.begin(), labels.end(), Json("mlp bias 149")) - labels.begin());
  ASSERT_LT(mlp_bias, labels.size());
  EXPECT_TRUE(json["parts"]["values"][0][mlp_bias][7].is_number()) << "what writes last is taken first";
  EXPECT_TRUE(json["parts"]["values"][0][0][0].is_null());
  const std::string text = interrupted({"attribute", "--sources"});
  EXPECT_NE(text.find("the heads so far together"), std::string::npos);
  EXPECT_NE(text.find(" of 150 layers\n"), std::string::npos) << text.substr(text.size() - 200);
}

// What one command calls by one name and another command by another is taken under both.
TEST_F(LensTest, OptionsHaveTheNamesOfOtherCommands) {
  const auto same = [&](const char* command, const Words& words, const Words& others) {
    EXPECT_EQ(succeed(with(command, words)).out, succeed(with(command, others)).out);
  };
  same("lens", {"--parts", "head", "--positions", "1,2"}, {"--grain", "head", "--position", "1,2"});
  same("attribute", {"--answer-token", "5", "--grain", "head", "--largest", "3"},
       {"--answer-token", "5", "--parts", "head", "--top-k", "3"});
  expect_failure(with("lens", {"--position", "x"}), 2, "--positions: 'x' is not a position");
  expect_failure(with("lens", {"--answer-token", "w5"}), 2,
                 "'w5' is no id; expected ids such as 1,2; --answer");
}

TEST_F(LensTest, SaysWhatDoesNotFit) {
  expect_failure({"lens", model()}, 2, "expected one of");
  expect_failure(with("attribute", {}), 2, "--answer or --answer-token");
  expect_failure(with("lens", {"--out", "x.svg"}), 2, "--answer");
  expect_failure(with("lens", {"--answer-token", "5", "--out", "x.png"}), 2, "x.png");
  expect_failure(with("lens", {"--parts", "letters"}), 2, "letters");
  expect_failure(with("lens", {"--answer-token", "11"}), 1, "token id 11");
  expect_failure(with("attribute", {"--answer-token", "5", "--positions", "9"}), 1, "column 9");
}

}  // namespace
}  // namespace hooked::lens_cli_test
