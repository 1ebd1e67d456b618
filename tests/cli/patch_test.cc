// `hooked patch`: its numbers are those of one run per place, its fields those of the contract.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <cmath>

#include "hooked/hooked.h"
#include "tests/cli/cli_fixture.h"
#include "tests/cli/running_program.h"
#include "tests/support/golden_folder.h"

namespace hooked::patch_test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class PatchTest : public CliTest {
 protected:
  /// `hooked patch` of a pair of ids in float64.
  Words call(const Words& more = {}) const {
    return Words{"patch",   model(),   "--clean-tokens", "1,2,3,4", "--corrupted-tokens",
                 "1,5,3,4", "--dtype", "float64"} +
           more;
  }
  Words scored(const Words& more = {}) const {
    return call({"--answer-token", "6", "--against-token", "7"}) + more;
  }
  Json json(const Words& arguments) const { return succeed(arguments + Words{"--json"}).json(); }

  /// A file of two pairs of different lengths with a place `other`, which is another column in each prompt.
  std::string pairs() const {
    write(
        "pairs.jsonl",
        R"({"clean": [1,2,3,4], "corrupted": [1,5,3,4], "answers": 6, "against": 7, "places": {"other": 1}})"
        "\n"
        R"({"clean": [1,8,2,3,9], "corrupted": [1,8,8,5,3,9], "answers": 9, "against": [2,3], )"
        R"("places": {"other": {"clean": 2, "corrupted": 3}}})"
        "\n");
    return path("pairs.jsonl");
  }

  /// Pairs that are aligned column by column; the second one of these ids.
  std::string aligned(std::string_view clean, std::string_view corrupted) const {
    write("aligned.jsonl",
          fmt::format(R"({{"clean": [1,2,3,4], "corrupted": [1,5,3,4], "answers": 6, "against": 7}}
{{"clean": {}, "corrupted": {}, "answers": 9, "against": [2,3]}}
)",
                      clean, corrupted));
    return path("aligned.jsonl");
  }

  HookedTransformer exact() const { return HookedTransformer::load(model(), {.dtype = at::kDouble}); }
  static at::Tensor row(std::vector<std::int64_t> ids) {
    return at::tensor(ids, at::TensorOptions(at::kLong)).unsqueeze(0);
  }
  at::Tensor clean() const { return row({1, 2, 3, 4}); }
  at::Tensor corrupted() const { return row({1, 5, 3, 4}); }

  double difference(const HookedTransformer& model, const at::Tensor& tokens,
                    std::vector<Edit> edits = {}) const {
    const auto logits = model.run(tokens, {.edits = std::move(edits)}).logits()[0][-1];
    return (logits[6] - logits[7]).item<double>();
  }
};

constexpr double kClose = 1e-9;

/// A number of the unpatched runs, of the first metric.
const Json& unpatched(const Json& out, const char* side) { return out.at("unpatched").at(0).at(side); }

/// A grid of a sweep: its scores, or what `which` names.
const Json& grid(const Json& sweep, const char* which = "scores", std::size_t metric = 0) {
  return sweep.at("grids").at(metric).at(which);
}
const Json& values(const Json& sweep, const char* which = "scores", std::size_t metric = 0) {
  return grid(sweep, which, metric).at("values");
}

/// What its axes have as `field`.
Json of_axes(const Json& sweep, const char* field) {
  Json list = Json::array();
  for (const Json& axis : grid(sweep).at("axes")) list.push_back(axis.at(field));
  return list;
}

/// All numbers of nested arrays are those of a tensor; null is NaN.
void expect_numbers(const Json& values, const at::Tensor& expected, double tolerance = kClose) {
  if (expected.dim() > 0) {
    ASSERT_EQ(values.size(), static_cast<std::size_t>(expected.size(0)));
    for (std::int64_t i = 0; i < expected.size(0); ++i)
      expect_numbers(values[static_cast<std::size_t>(i)], expected[i], tolerance);
    return;
  }
  const double number = expected.item<double>();
  if (std::isnan(number)) {
    EXPECT_TRUE(values.is_null()) << values;
  } else {
    ASSERT_TRUE(values.is_number()) << values;
    EXPECT_NEAR(values.get<double>(), number, tolerance);
  }
}

TEST_F(PatchTest, NumbersAreThoseOfOneRunPerPlace) {
  const auto model = exact();
  const auto cache = model.run_with_cache(clean()).cache;
  const Json out = json(scored({"--sweep", "resid_pre,attn_head_out_all_pos"}));
  EXPECT_EQ(unpatched(out, "metric"), Json({{"name", "logit_difference"}, {"unit", "logits"}}));
  EXPECT_EQ(out["fingerprint"], model.identity()->fingerprint);
  EXPECT_NEAR(unpatched(out, "clean").get<double>(), difference(model, clean()), kClose);
  EXPECT_NEAR(unpatched(out, "corrupted").get<double>(), difference(model, corrupted()), kClose);
  EXPECT_EQ(out["tokens"], Json::parse("[[1,5,3,4]]"));
  EXPECT_EQ(out["clean_tokens"], Json::parse("[[1,2,3,4]]"));
  EXPECT_EQ(out["complete"], true);
  ASSERT_EQ(out["sweeps"].size(), 2u);

  const Json& stream = out["sweeps"][0];
  EXPECT_EQ(stream["site"], "resid_pre");
  EXPECT_EQ(of_axes(stream, "name"), Json::parse(R"(["layer", "pos"])"));
  EXPECT_EQ(of_axes(stream, "labels"), Json::parse(R"([["0", "1"], ["0", "1", "2", "3"]])"));
  EXPECT_GT(stream["runs"].get<int>(), 0);
  EXPECT_GE(stream["seconds"].get<double>(), 0);
  const double low = unpatched(out, "corrupted"), high = unpatched(out, "clean");
  for (int layer = 0; layer < 2; ++layer) {
    for (int pos = 0; pos < 4; ++pos) {
      const double expected =
          difference(model, corrupted(), {replace(act::resid_pre(layer).pos(pos), cache)});
      const auto place = [&](const char* which) { return values(stream, which)[layer][pos].get<double>(); };
      EXPECT_NEAR(place("scores"), expected, kClose);
      EXPECT_NEAR(place("rescaled"), (expected - low) / (high - low), kClose);
    }
  }
  const Json& heads = out["sweeps"][1];
  EXPECT_EQ(of_axes(heads, "name"), Json::parse(R"(["layer", "head"])"));
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      EXPECT_NEAR(values(heads)[layer][head].get<double>(),
                  difference(model, corrupted(), {replace(act::z(layer).head(head), cache)}), kClose);
    }
  }
}

// By its word or by its path, also if only some layers have it.
TEST_F(PatchTest, SitesOfLayersWithoutAttention) {
  const auto golden = [](const char* name) { return golden_folder(std::string("cases/") + name).string(); };
  struct Named {
    const char* golden;
    const char* word;
    const char* path;
    act::BlockSite site;
    std::vector<SweptAxis> over;
  };
  const Named all[] = {{"qwen3_next",
                        "linear_out:layer,head,pos",
                        "linear_attn.hook_out:layer,head,pos",
                        act::linear_out,
                        {Axis::layer, Axis::head, Axis::pos}},
                       {"qwen3_next",
                        "linear_k:layer,key_head",
                        "linear_attn.hook_k:layer,key_head",
                        act::linear_k,
                        {Axis::layer, Axis::lin_key_head}},
                       {"lfm2",
                        "conv_gated:layer,pos",
                        "conv.hook_gated:layer,pos",
                        act::conv_gated,
                        {Axis::layer, Axis::pos}}};
  for (const Named& one : all) {
    SCOPED_TRACE(one.word);
    const auto model = HookedTransformer::load(golden(one.golden), {.dtype = at::kDouble});
    const at::Tensor expected = sweep(model, {.site = one.site,
                                              .over = one.over,
                                              .from = model.run_with_cache(clean(), act::everything).cache,
                                              .into = corrupted(),
                                              .metric = logit_difference(6, 7)})
                                    .values();
    EXPECT_TRUE(expected.isnan().any().item<bool>());
    for (const char* sweep : {one.word, one.path}) {
      Words words = scored({"--sweep", sweep});
      words[1] = golden(one.golden);
      const Json out = json(words);
      EXPECT_EQ(out["sweeps"][0]["site"], sweep);
      expect_numbers(values(out["sweeps"][0]), expected);
      const std::string shown = succeed(words).out;
      EXPECT_EQ(shown.find("nan"), std::string::npos) << "what cannot exist is blank\n" << shown;
    }
  }
  expect_failure(call({"--answer-token", "6", "--sweep", "linear_attn.hook_ot:layer"}), 1,
                 "did you mean 'linear_attn.hook_out'?");
}

/// A single token predicts nothing: the missing number is always spelled the same way.
TEST_F(PatchTest, NoNumberIsSpelledOneWay) {
  const Words words{"patch", model(),    "--clean-tokens", "1",       "--corrupted-tokens",
                    "5",     "--metric", "loss",           "--sweep", "resid_pre"};
  const std::string shown = succeed(words).out;
  EXPECT_NE(shown.find("nan"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("-nan"), std::string::npos) << shown;
  EXPECT_TRUE(unpatched(json(words), "clean").is_null());
}

TEST_F(PatchTest, ACellIsARunWithAnEditOfTheProgram) {
  succeed({"cache", model(), "--tokens", "1,2,3,4", "--names", "*.hook_resid_pre", "--dtype", "float64",
           "--out", path("clean.safetensors")});
  const Json run =
      succeed(
          {"run", model(), "--tokens", "1,5,3,4", "--dtype", "float64", "--top-k", "11", "--edit",
           "blocks.1.hook_resid_pre[pos=1] replace " + path("clean.safetensors") + "#blocks.1.hook_resid_pre",
           "--json"})
          .json();
  double difference = 0;
  for (const Json& next : run["rows"][0]["next"]) {
    if (next["id"] == 6) difference += next["logit"].get<double>();
    if (next["id"] == 7) difference -= next["logit"].get<double>();
  }
  const Json out = json(scored({"--sweep", "resid_pre", "--layers", "1", "--positions", "1"}));
  EXPECT_NEAR(values(out["sweeps"][0])[0][0].get<double>(), difference, 1e-6);
}

TEST_F(PatchTest, EverySweepThatHelpListsRuns) {
  std::string all = "head_all_pos_every,direct_path_q,direct_path_k,direct_path_v";
  for (const PatchingPreset& preset : patching_presets()) {
    if (preset.name != "attn_head_all_pos_every") all += "," + std::string(preset.name);
  }
  const Json out = json(scored({"--sweep", all}));
  ASSERT_EQ(out["sweeps"].size(), patching_presets().size() + 3);
  EXPECT_EQ(out["sweeps"][0]["site"], "attn_head_all_pos_every");
  const auto help = succeed({"patch", "--help"}).out;
  for (const PatchingPreset& preset : patching_presets())
    EXPECT_NE(help.find(std::string(preset.name)), std::string::npos) << preset.name;
}

TEST_F(PatchTest, PlacesMayBeSome) {
  const Json all = json(scored({"--sweep", "attn_head_out_by_pos"}))["sweeps"][0];
  const Json some = json(scored({"--sweep", "attn_head_out_by_pos,resid_pre", "--layers", "-1", "--heads",
                                 "2,0", "--positions", "1,last"}))["sweeps"][0];
  EXPECT_EQ(of_axes(some, "labels"), Json::parse(R"([["1"], ["1", "last"], ["2", "0"]])"));
  const auto columns = [&](const std::string& positions) {
    const Json one = json(scored({"--sweep", "resid_pre", "--positions", positions}))["sweeps"][0];
    return of_axes(one, "labels")[1];
  };
  EXPECT_EQ(columns("1:3"), Json::parse(R"(["1", "2"])"));
  EXPECT_EQ(columns("-2:,0"), Json::parse(R"(["2", "3", "0"])"));
  EXPECT_EQ(columns("all"), Json::parse(R"(["0", "1", "2", "3"])"));
  // Layers and heads are named in the same way.
  const auto places = [&](const std::string& layers, const std::string& heads) {
    return of_axes(json(scored({"--sweep", "head_all_pos_every,attn_head_out_all_pos,z:layer,head",
                                "--layers", layers, "--heads", heads}))["sweeps"][2],
                   "labels");
  };
  EXPECT_EQ(places("0:2", "1:"), Json::parse(R"([["0", "1"], ["1", "2"]])"));
  EXPECT_EQ(places("last", "0,last"), Json::parse(R"([["1"], ["0", "2"]])"));
  EXPECT_EQ(places("all", ":-1"), Json::parse(R"([["0", "1"], ["0", "1"]])"));
  for (int pos = 0; pos < 2; ++pos) {
    for (int head = 0; head < 2; ++head) {
      EXPECT_NEAR(values(some)[0][pos][head].get<double>(),
                  values(all)[1][pos == 0 ? 1 : 3][head == 0 ? 2 : 0].get<double>(), kClose);
    }
  }
}

TEST_F(PatchTest, ASiteIsSweptOverItsAxes) {
  const auto model = exact();
  const auto cache = model.run_with_cache(clean(), act::post).cache;
  const Json out = json(scored({"--sweep", "post:layer,d_mlp,mlp_out"}));
  ASSERT_EQ(out["sweeps"].size(), 2u);
  EXPECT_EQ(out["sweeps"][0]["site"], "post:layer,d_mlp");
  EXPECT_EQ(of_axes(out["sweeps"][0], "labels")[1].size(), 16u);
  EXPECT_NEAR(values(out["sweeps"][0])[1][5].get<double>(),
              difference(model, corrupted(), {replace(act::post(1).at(Axis::d_mlp, 5), cache)}), kClose);
}

TEST_F(PatchTest, PathsBeginAtOneHead) {
  const Json out = json(scored({"--sweep", "direct_path_k", "--source", "0.1"}))["sweeps"][0];
  EXPECT_EQ(of_axes(out, "name"), Json::parse(R"(["layer", "head"])"));
  const auto model = exact();
  const auto paths = direct_path(model, {.input = HeadInput::key,
                                         .source = HeadPlace{0, 1},
                                         .sweep = {.from = model.run_with_cache(clean(), act::z).cache,
                                                   .into = corrupted(),
                                                   .metric = logit_difference(6, 7)}});
  expect_numbers(values(out), paths.values());
  EXPECT_TRUE(values(out)[0][0].is_null()) << "no later head";
  const std::string shown = succeed(scored({"--sweep", "direct_path_k", "--source", "0.1"})).out;
  EXPECT_NE(shown.find("\n           0\n"), std::string::npos) << "blank, as in pictures\n" << shown;
  EXPECT_EQ(shown.find("nan"), std::string::npos) << shown;
}

TEST_F(PatchTest, NumbersKeepTheirDigits) {
  const std::string ranks = succeed(scored({"--sweep", "resid_pre", "--metric", "rank"})).out;
  const std::string first = ranks.substr(0, ranks.find("\n\n"));
  EXPECT_NE(first.find("rank"), std::string::npos) << ranks;
  EXPECT_EQ(first.find('.'), std::string::npos) << "ranks are whole numbers\n" << ranks;
}

/// The metric comes before the prompts' answers, which have no logits.
TEST_F(PatchTest, AModelWithoutLogitsIsRefused) {
  ModelConfig bare = config();
  bare.unembedding.reset();
  HookedTransformer::create(bare, {.seed = 1}).save(folder_ / "bare");
  Words words = scored({"--sweep", "resid_pre"});
  words[1] = path("bare");
  expect_failure(words, 1, "this model has no unembedding and so no logits to score");
}

TEST_F(PatchTest, ValuesComeFromWhereItIsSaid) {
  const auto model = exact();
  const auto of_run = model.run_with_cache(corrupted()).cache;
  const Json noising = json(scored({"--noising", "--sweep", "resid_mid"}));
  EXPECT_EQ(noising["tokens"], Json::parse("[[1,2,3,4]]"));
  EXPECT_NEAR(values(noising["sweeps"][0])[1][3].get<double>(),
              difference(model, clean(), {replace(act::resid_mid(1).pos(3), of_run)}), kClose);
  const Json zeros = json(scored({"--from", "zero", "--noising", "--sweep", "attn_head_out_all_pos"}));
  EXPECT_NEAR(values(zeros["sweeps"][0])[1][2].get<double>(),
              difference(model, clean(), {zero(act::z(1).head(2))}), kClose);

  const std::string file = aligned("[1,8,2,3]", "[1,8,5,3]");
  const auto pairs = PromptPairs::load(model, file);
  const auto data = model.run_with_cache(pairs.clean(), act::z).cache;
  const auto metric = logit_difference(pairs.answers(), pairs.against());
  const Words of_file{"patch",   this->model(),           "--pairs",   file, "--dtype", "float64",
                      "--sweep", "attn_head_out_all_pos", "--per-pair"};
  for (const auto& [words, source] :
       {std::pair{Words{"--from", "mean_rows"}, PatchSource::mean(data, MeanOver::rows)},
        {Words{"--from", "mean_rows_and_positions"}, PatchSource::mean(data, MeanOver::rows_and_positions)},
        {Words{"--from", "resampled", "--seed", "3"}, PatchSource::resampled(data, 3)}}) {
    const auto expected = sweep(model, patching_preset("attn_head_out_all_pos"),
                                {.from = source, .into = pairs.clean(), .metric = metric});
    expect_numbers(
        json(of_file + Words{"--noising"} + words)["sweeps"][0]["grids"][0]["pair_scores"]["values"],
        expected.values());
  }
}

TEST_F(PatchTest, EditsHoldInEveryRun) {
  const auto model = exact();
  const std::vector<Edit> edits{zero(act::z(0).head(1))};
  const auto cache = model.run(clean(), {.edits = edits, .capture = act::resid_pre}).cache;
  const Json out = json(scored({"--edit", "blocks.0.attn.hook_z[head=1] zero", "--sweep", "resid_pre"}));
  EXPECT_NEAR(unpatched(out, "clean").get<double>(), difference(model, clean(), edits), kClose);
  EXPECT_NEAR(unpatched(out, "corrupted").get<double>(), difference(model, corrupted(), edits), kClose);
  EXPECT_NEAR(values(out["sweeps"][0])[1][1].get<double>(),
              difference(model, corrupted(), {edits[0], replace(act::resid_pre(1).pos(1), cache)}), kClose);
}

TEST_F(PatchTest, PairsAndMetricsOnlyAddFields) {
  const auto model = exact();
  const std::string file = aligned("[1,8,2,3,9]", "[1,8,5,3,9]");
  const auto pairs = PromptPairs::load(model, file);
  const Words words{"patch",    this->model(),
                    "--pairs",  file,
                    "--dtype",  "float64",
                    "--sweep",  "attn_head_out_all_pos",
                    "--metric", "probability,logit_difference,kl_divergence,top1,loss"};
  const Json mean = json(words);
  const Metrics metrics{probability(pairs.answers()), logit_difference(pairs.answers(), pairs.against())};
  const auto expected = sweep(model, patching_preset("attn_head_out_all_pos"),
                              {.from = model.run_with_cache(pairs.clean(), act::z).cache,
                               .into = pairs.corrupted(),
                               .metric = metrics})
                            .values();  // [metric, row, layer, head]
  const auto right = scores(model, pairs.clean(), metrics).values(),
             wrong = scores(model, pairs.corrupted(), metrics).values();
  EXPECT_EQ(unpatched(mean, "metric")["name"], "probability");
  EXPECT_EQ(mean["pairs"], 2);
  expect_numbers(unpatched(mean, "clean"), right[0].mean());
  expect_numbers(mean["unpatched"][1]["corrupted"], wrong[1].mean());
  const Json& sweep = mean["sweeps"][0];
  ASSERT_EQ(sweep["grids"].size(), 5u);
  EXPECT_EQ(sweep["grids"][2]["metric"], Json({{"name", "kl_divergence"}, {"unit", "nats"}}));
  EXPECT_NEAR(mean["unpatched"][2]["clean"].get<double>(), 0, kClose);
  expect_numbers(values(sweep), expected[0].mean(0));
  expect_numbers(values(sweep, "scores", 1), expected[1].mean(0));
  expect_numbers(values(sweep, "rescaled", 1),
                 (expected[1].mean(0) - wrong[1].mean()) / (right[1].mean() - wrong[1].mean()));
  EXPECT_FALSE(sweep["grids"][0].contains("pair_scores"));

  const Json each = json(words + Words{"--per-pair"});
  expect_numbers(each["unpatched"][1]["pair_clean"], right[1]);
  expect_numbers(values(each["sweeps"][0], "pair_scores", 1), expected[1]);
  expect_numbers(values(each["sweeps"][0], "pair_rescaled", 1),
                 (expected[1] - wrong[1].view({2, 1, 1})) / (right[1] - wrong[1]).view({2, 1, 1}));
  expect_numbers(values(each["sweeps"][0]), expected[0].mean(0));
}

TEST_F(PatchTest, PlacesOfThePairsHaveAColumnInEachPrompt) {
  const auto model = exact();
  const auto pairs = PromptPairs::load(model, this->pairs());
  const auto metric = logit(pairs.answers(), pairs.corrupted_place("other"));
  const auto expected =
      sweep(model, patching_preset("resid_pre"),
            {.over = {SweptAxis(Axis::pos,
                                {SweptPlace(pairs.corrupted_place("other"), pairs.clean_place("other"))})},
             .from = model.run_with_cache(pairs.clean(), act::resid_pre).cache,
             .into = pairs.corrupted(),
             .metric = metric});
  const Json out = json({"patch", this->model(), "--pairs", this->pairs(), "--dtype", "float64", "--sweep",
                         "resid_pre", "--positions", "other", "--metric", "logit", "--position", "other"});
  EXPECT_EQ(of_axes(out["sweeps"][0], "labels")[1], Json::parse(R"(["other"])"));
  EXPECT_TRUE(out["logits_centred"].get<bool>());
  expect_numbers(values(out["sweeps"][0]), expected.values().mean(0));
  expect_numbers(unpatched(out, "clean"),
                 logit(pairs.answers(), pairs.clean_place("other")).score(model, pairs.clean()).mean());
}

// A mean over some of the pairs is no number beside the unpatched mean over all of them.
TEST_F(PatchTest, APlaceThatSomePairsLackHasNoMeanOfScores) {
  const Words words{"patch",   model(),   "--pairs", aligned("[1,8,2,3,9,4]", "[1,8,5,3,9,4]"),
                    "--dtype", "float64", "--sweep", "resid_pre"};
  const Json out = json(words + Words{"--per-pair"});
  EXPECT_EQ(out["padding"], Json::parse("[2, 0]"));
  const Json &sweep = out["sweeps"][0], each = values(sweep, "pair_scores"), mean = values(sweep);
  const auto is_real = [&](int pair, std::size_t layer, std::size_t column) {
    return !each[pair][layer][column].is_null();
  };
  for (std::size_t layer = 0; layer < mean.size(); ++layer) {
    for (std::size_t column = 0; column < 6; ++column) {
      EXPECT_TRUE(is_real(1, layer, column));
      EXPECT_EQ(is_real(0, layer, column), column >= 2) << "padding";
      if (column < 2) {
        EXPECT_TRUE(mean[layer][column].is_null()) << mean;
      } else {
        EXPECT_NEAR(mean[layer][column].get<double>(),
                    (each[0][layer][column].get<double>() + each[1][layer][column].get<double>()) / 2,
                    kClose);
      }
      EXPECT_FALSE(values(sweep, "rescaled")[layer][column].is_null()) << "of the pair that has it";
    }
  }
  EXPECT_NE(succeed(words).out.find("a place that some of the pairs lack"), std::string::npos);
}

TEST_F(PatchTest, FilesHoldTheScores) {
  const Json out = json(scored({"--sweep", "resid_pre,attn_out", "--out", path("scores.csv")}));
  expect_numbers(values(out["sweeps"][1]), Grid::load(path("scores.attn_out.csv")).values());
  expect_numbers(values(out["sweeps"][0]), Grid::load(path("scores.resid_pre.csv")).values());
  const Words rescaled = scored({"--sweep", "resid_pre", "--metric", "logit_difference,rank", "--rescaled"});
  succeed(rescaled + Words{"--out", path("picture.svg")});
  EXPECT_EQ(read("picture.svg").rfind("<svg", 0), 0u);
  succeed(rescaled + Words{"--out", path("scores.safetensors")});
  const auto grid = Grid::load(path("scores.safetensors"));
  EXPECT_EQ(grid.axes().front().name, "metric");
  expect_numbers(values(out["sweeps"][0], "rescaled"), grid.values()[0]);
}

TEST_F(PatchTest, PrintsScoresAndTheirScale) {
  const auto text = succeed(scored({"--sweep", "resid_pre"})).out;
  for (const char* words : {"clean run", "corrupted run", "logit difference", "Patching resid_pre",
                            "corrupted run 0, clean run 1", "layer \\ pos"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  const auto same = succeed(scored({"--sweep", "resid_pre", "--position", "0"})).out;
  EXPECT_NE(same.find("score the same, so that nothing can be rescaled"), std::string::npos) << same;
}

TEST_F(PatchTest, TheCommandLineIsChecked) {
  const auto usage = [&](const Words& words, const std::string& what) { expect_failure(words, 2, what); };
  usage({"patch", model(), "--sweep", "resid_pre"}, "expected one of --clean, --clean-tokens, --pairs");
  usage({"patch", model(), "--clean-tokens", "1", "--sweep", "resid_pre"}, "--corrupted-tokens");
  usage(scored(), "--sweep");
  usage(scored({"--sweep", "resid_pr"}), "there is no sweep 'resid_pr'");
  usage(scored({"--sweep", "resid_pre,resid_pre"}), "resid_pre occurs twice");
  usage(scored({"--sweep", "post:leyer"}), "did you mean 'layer'?");
  usage(scored({"--sweep", "post:d_mlp"}), "has no axis layer");
  usage(scored({"--sweep", "post:layer,d_mpl"}),
        "'d_mpl' after 'post:layer' is neither an axis nor a sweep; expected one of the site's axes, or a "
        "name that --help lists; did you mean 'd_mlp'?");
  usage(scored({"--sweep", "post:layer,head"}), "cannot be swept over head");
  usage(scored({"--sweep", "embed:layer"}), "outside the blocks");
  usage(call({"--sweep", "resid_pre"}), "nothing says what is scored");
  usage(call({"--sweep", "resid_pre", "--metric", "rank"}), "--metric rank needs an answer");
  usage(call({"--sweep", "resid_pre", "--metric", "logit_difference", "--answer-token", "1"}),
        "needs what the answer is held against");
  usage(scored({"--sweep", "resid_pre", "--metric", "lss"}), "did you mean 'loss'?");
  usage(scored({"--sweep", "resid_pre", "--metric", "loss,loss"}), "loss occurs twice");
  usage(scored({"--sweep", "resid_pre", "--from", "mean_rows"}), "expected --pairs");
  usage(scored({"--sweep", "resid_pre", "--from", "clean", "--noising"}), "--noising patches into");
  usage(scored({"--sweep", "resid_pre", "--from", "zero", "--seed", "1"}), "--seed is of --from resampled");
  usage(scored({"--sweep", "resid_pre", "--source", "0.1"}), "--source is where paths begin");
  usage(scored({"--sweep", "direct_path_q", "--source", "1"}), "expected LAYER.HEAD");
  usage(scored({"--sweep", "resid_pre", "--heads", "0"}), "--heads narrows none of the sweeps");
  usage(scored({"--sweep", "resid_pre", "--layers", "x"}), "--layers: 'x' is not a layer; expected i, i:j");
  usage(scored({"--sweep", "resid_pre", "--out", path("a.png")}), "expected a name that ends in one of .csv");
  usage(scored({"--sweep", "resid_pre", "--rescaled"}), "--out");
  usage({"patch", model(), "--pairs", pairs(), "--answer-token", "1", "--sweep", "resid_pre"},
        "pair 0 of " + path("pairs.jsonl") + " has its own");
  write("bare.jsonl", "{\"clean\": [1,2], \"corrupted\": [1,3]}\n");
  usage({"patch", model(), "--pairs", path("bare.jsonl"), "--sweep", "resid_pre"},
        "not all pairs of " + path("bare.jsonl") + " have answers");
}

TEST_F(PatchTest, WhatDoesNotFitTheModelFails) {
  const auto fails = [&](const Words& words, const std::string& what) { expect_failure(words, 1, what); };
  fails(scored({"--sweep", "pst:layer"}), "did you mean 'post'?");
  fails(scored({"--sweep", "resid_pre", "--layers", "2"}), "expected a number from -2 to 1");
  fails(scored({"--sweep", "resid_pre", "--positions", "4"}), "4");
  fails(scored({"--sweep", "resid_pre", "--layers", "1:3"}),
        "[--layers] range 1:3 picks nothing or leaves axis 'layer'; expected a part of 0:2");
  fails(scored({"--sweep", "resid_pre", "--position", "subject"}),
        "no place 'subject'; expected a column such as 3 or -1, or `last`, as no place is in every pair");
  fails(scored({"--sweep", "direct_path_q", "--source", "7.0"}), "7");
  fails(call({"--sweep", "resid_pre", "--answer-token", "11"}), "outside the vocabulary");
  fails(scored({"--sweep", "resid_pre", "--out", path("absent/a.csv")}),
        "the folder of the file is not there");
  fails({"patch", model(), "--clean-tokens", "1,2", "--corrupted-tokens", "1,2,3", "--answer-token", "1",
         "--sweep", "resid_pre"},
        "pair 0");
  fails({"patch", model(), "--clean", "a", "--corrupted", "b", "--answer", "c", "--sweep", "resid_pre"},
        "tokenizer");
}

TEST_F(PatchTest, TextsAreRead) {
  write_tokenizer();
  const Json out =
      json({"patch", model(), "--clean", "w2 w3 w4", "--corrupted", "w5 w3 w4", "--answer", "w6", "--answer",
            "w8", "--against", "w7", "--prepend-bos", "yes", "--sweep", "resid_pre"});
  EXPECT_EQ(out["clean_tokens"], Json::parse("[[0,2,3,4]]"));
  EXPECT_EQ(of_axes(out["sweeps"][0], "labels")[1][1].get<std::string>().rfind("1 ", 0), 0u);
  const auto logits = load().run(row({0, 2, 3, 4})).logits()[0][-1];
  EXPECT_NEAR(unpatched(out, "clean").get<double>(), ((logits[6] + logits[8]) / 2 - logits[7]).item<double>(),
              1e-4);
}

TEST_F(PatchTest, AChatTemplateMakesThePrompts) {
  write_tokenizer();
  write("model/chat_template.jinja",
        "{{ bos_token }}{% for m in messages %} {% if m.role == 'system' %}w9{% endif %} {{ m.content }}{% "
        "endfor %}{% if add_generation_prompt %} w10{% endif %}");
  const std::vector<std::string> scores = {"--answer", "w6", "--against", "w7"};
  const auto with = [&](std::vector<std::string> options, const std::vector<std::string>& more) {
    options.insert(options.end(), more.begin(), more.end());
    options.insert(options.end(), scores.begin(), scores.end());
    return options;
  };
  const std::vector<std::string> pair = {"--clean", "w2 w3", "--corrupted", "w5 w3"};
  const Json out = json(with({"patch", model(), "--sweep", "resid_pre", "--chat", "--system", "w4"}, pair));
  EXPECT_EQ(out["clean_tokens"], Json::parse("[[0,9,4,2,3,10]]"));
  EXPECT_EQ(out["corrupted_tokens"], Json::parse("[[0,9,4,5,3,10]]"));
  const auto logits = load().run(row({0, 9, 4, 2, 3, 10})).logits()[0][-1];
  EXPECT_NEAR(unpatched(out, "clean").get<double>(), (logits[6] - logits[7]).item<double>(), 1e-4);
  // The same for pairs of a file; the parts of a circuit are those of the same tokens as ids.
  write("pairs.jsonl", R"({"clean": "w2 w3", "corrupted": "w5 w3", "answers": "w6", "against": "w7"})");
  EXPECT_EQ(json({"patch", model(), "--sweep", "resid_pre", "--chat", "--pairs",
                  path("pairs.jsonl")})["clean_tokens"],
            Json::parse("[[0,2,3,10]]"));
  Json circuit = json(with({"circuits", model(), "--chat"}, pair));
  Json same =
      json(with({"circuits", model()}, {"--clean-tokens", "0,2,3,10", "--corrupted-tokens", "0,5,3,10"}));
  EXPECT_EQ(circuit["clean_tokens"], Json::parse("[[0,2,3,10]]"));
  EXPECT_EQ(circuit["around"]["before"], Json::array()) << "the template spells it";
  EXPECT_EQ(same["around"], nullptr) << "ids are as they are";
  circuit.erase("around");
  same.erase("around");
  EXPECT_EQ(circuit, same);
  write("ids.jsonl", R"({"clean": [2, 3], "corrupted": "w5 w3", "answers": "w6", "against": "w7"})");
  expect_failure({"patch", model(), "--sweep", "resid_pre", "--chat", "--pairs", path("ids.jsonl")}, 2,
                 "pair 0 of");
  expect_failure(with({"patch", model(), "--sweep", "resid_pre", "--system", "w4"}, pair), 2, "--chat");
  expect_failure(with({"patch", model(), "--sweep", "resid_pre", "--chat", "--prepend-bos", "no"}, pair), 2,
                 "--chat");
  expect_failure(with({"patch", model(), "--sweep", "resid_pre", "--chat"},
                      {"--clean-tokens", "1", "--corrupted-tokens", "2"}),
                 2, "--chat");
}

class PatchInterrupted : public PatchTest {
 protected:
  /// Tens of thousands of cells.
  PatchInterrupted() { save_longer("wide", 100); }
  Words long_call(const std::string& last, const Words& more = {}) const {
    std::string clean = "1", corrupted = "2";
    for (int i = 0; i < 78; ++i) {
      clean += fmt::format(",{}", i * 7 % 11);
      corrupted += fmt::format(",{}", i * 7 % 11);
    }
    return Words{"patch",
                 path("wide"),
                 "--clean-tokens",
                 clean + "," + last,
                 "--corrupted-tokens",
                 corrupted + "," + last,
                 "--answer-token",
                 "3",
                 "--sweep",
                 "attn_head_pattern_dest_src_pos",
                 "--threads",
                 "1",
                 "--json"} +
           more;
  }
};

TEST_F(PatchInterrupted, GoesOnWhereItEnded) {
  const std::string partial = path("partial.safetensors");
  RunningProgram program(long_call("4", {"--partial", partial}), path("stderr"));
  ASSERT_TRUE(program.wait_for_guard());
  program.interrupt();
  const Json ended = parse_json(program.read(), {.bytes = std::size_t{1} << 26});
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  EXPECT_EQ(ended["complete"], false);
  ASSERT_TRUE(std::filesystem::exists(partial));
  expect_failure(long_call("5", {"--partial", partial}), 1,
                 "this is the partial file of another sweep: its source");

  const Json resumed = succeed(long_call("4", {"--partial", partial})).json();
  EXPECT_FALSE(std::filesystem::exists(partial));
  EXPECT_EQ(resumed["complete"], true);
  const Json unbroken = succeed(long_call("4")).json();
  EXPECT_EQ(values(resumed["sweeps"][0]), values(unbroken["sweeps"][0])) << "to the last bit";
  const Json some = values(ended["sweeps"][0]).flatten(), all = values(unbroken["sweeps"][0]).flatten();
  std::int64_t reached = 0;
  for (const auto& [place, value] : some.items()) {
    if (value.is_null()) continue;
    ++reached;
    EXPECT_EQ(value, all[place]);
  }
  EXPECT_GT(reached, 0) << "the numbers that were there";
  EXPECT_LT(reached, std::ssize(all));
  EXPECT_LT(resumed["sweeps"][0]["runs"].get<int>(), unbroken["sweeps"][0]["runs"].get<int>() + 1);
}

TEST_F(PatchInterrupted, PrintsWhatIsThere) {
  Words words = long_call("4");
  words.pop_back();  // --json
  RunningProgram program(words, path("stderr"));
  ASSERT_TRUE(program.wait_for_guard());
  program.interrupt();
  const std::string text = program.read();
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  EXPECT_NE(text.find("ended early: attn_head_pattern_dest_src_pos has "), std::string::npos);
  EXPECT_NE(text.find("which --partial F would do"), std::string::npos);
}

}  // namespace
}  // namespace hooked::patch_test
