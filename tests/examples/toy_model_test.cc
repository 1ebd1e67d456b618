#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "examples/toy_task/figures.h"
#include "examples/toy_task/toy_task.h"
#include "hooked/hooked.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace toy::toy_model_test {
namespace {

using hooked::run_program;
using testing::HasSubstr;

const std::filesystem::path kModel = std::filesystem::path(HOOKED_SOURCE_DIR) / "examples/toy_model";

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ToyModel, DoesItsTaskAsTheModelCardSays) {
  const auto model = hooked::HookedTransformer::load(kModel.string());
  const auto figures = measure(model);
  EXPECT_GE(figures.sentences, 2000);
  EXPECT_GE(figures.sentence_accuracy(), 0.99);
  EXPECT_GE(figures.first_accuracy(), 0.99);
  EXPECT_GE(figures.second_accuracy(), 0.99);
  EXPECT_GE(figures.repeat_accuracy(), 0.99);

  // The card's four percentages, "| 99.95 % |", up to a handful of near ties that rounding may flip.
  const auto card = read(kModel / "README.md");
  const std::regex percentage(R"(\| ([0-9.]+) % \|)");
  std::vector<double> stated;
  for (std::sregex_iterator found(card.begin(), card.end(), percentage), end; found != end; ++found) {
    stated.push_back(std::stod((*found)[1]));
  }
  ASSERT_EQ(stated.size(), 4u) << card;
  EXPECT_NEAR(stated[0], 100 * figures.sentence_accuracy(), 0.05);
  EXPECT_NEAR(stated[1], 100 * figures.first_accuracy(), 0.1);
  EXPECT_NEAR(stated[2], 100 * figures.second_accuracy(), 0.1);
  EXPECT_NEAR(stated[3], 100 * figures.repeat_accuracy(), 0.05);
}

TEST(ToyModel, IsSmallAndAtLeastTwoLayersDeep) {
  EXPECT_LE(std::filesystem::file_size(kModel / "model.safetensors"), 4u << 20);
  const auto model = hooked::HookedTransformer::load(kModel.string());
  EXPECT_GE(model.config().n_layers, 2);
  EXPECT_TRUE(model.config().default_prepend_bos);
}

TEST(ToyModel, ItsTokenizerIsTheTasksVocabulary) {
  const Vocabulary vocabulary;
  EXPECT_EQ(read(kModel / "tokenizer.json"), vocabulary.tokenizer_json());
  const auto model = hooked::HookedTransformer::load(kModel.string());
  EXPECT_EQ(model.config().d_vocab, vocabulary.size());
  const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to");
  ASSERT_EQ(tokens.size(1), 15);
  EXPECT_EQ(tokens[0][0].item<std::int64_t>(), Vocabulary::kBos);
  EXPECT_EQ(tokens[0][2].item<std::int64_t>(), vocabulary.id("John"));
  EXPECT_EQ(model.to_token(" Mary"), vocabulary.id("Mary"));
  EXPECT_THROW(model.to_tokens("When Xenophanes and Mary went to the shop"), hooked::TokenizerError);
}

TEST(ToyTask, HeldOutPairsMeetInNoTrainingSentence) {
  // The two names of a sentence are the answer and the other name before it that the sentence has.
  Task task(1);
  const auto pairs_in = [&](Pairs pairs) {
    std::set<std::pair<std::int64_t, std::int64_t>> seen;
    const auto batch = task.sentences(500, pairs);
    for (std::int64_t row = 0; row < 500; ++row) {
      const auto answer = batch.answers[row].item<std::int64_t>();
      const auto end = batch.answer_pos[row].item<std::int64_t>();
      std::int64_t other = -1;
      for (std::int64_t i = 0; i < end; ++i) {
        const auto id = batch.tokens[row][i].item<std::int64_t>();
        const auto& word = task.vocabulary().word(id);
        const bool capital = word.front() >= 'A' && word.front() <= 'Z';
        if (i > 1 && capital && id != answer && word != "Later") other = id;
      }
      EXPECT_EQ(batch.tokens[row][end].item<std::int64_t>(), answer);
      seen.insert({std::min(answer, other), std::max(answer, other)});
    }
    return seen;
  };
  const auto training = pairs_in(Pairs::training), held_out = pairs_in(Pairs::held_out);
  EXPECT_GT(held_out.size(), 450u);
  for (const auto& pair : held_out) EXPECT_FALSE(training.contains(pair)) << pair.first << ' ' << pair.second;
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(is_held_out(i, i + 7), is_held_out(i + 7, i));
}

TEST(ToyTask, TheSameSeedDrawsTheSameSentencesWithBothRoleOrders) {
  const auto first = Task(3).sentences(200, Pairs::training), again = Task(3).sentences(200, Pairs::training);
  EXPECT_TRUE(first.tokens.equal(again.tokens));
  EXPECT_FALSE(first.tokens.equal(Task(4).sentences(200, Pairs::training).tokens));
  const auto share = first.first_answers.sum().item<std::int64_t>();
  EXPECT_GT(share, 60);
  EXPECT_LT(share, 140);
}

TEST(TrainToyModel, TwentyStepsLowerTheLossAndWriteAModelThatLoads) {
  const hooked::TempFolder folder;
  const auto finished = run_program("train_toy_model", "--steps 20 --out \"" + folder.path().string() + "\"");
  ASSERT_EQ(finished.status, 0) << finished.output;
  // A line per step: "step     1/20  loss: sentences 6.912, repeats 7.011 nats".
  std::vector<double> losses;
  const std::string_view mark = "sentences ";
  for (auto at = finished.output.find("loss: "); at != std::string::npos;
       at = finished.output.find("loss: ", at + 1)) {
    losses.push_back(std::stod(finished.output.substr(finished.output.find(mark, at) + mark.size())));
  }
  ASSERT_EQ(losses.size(), 20u) << finished.output;
  EXPECT_LT(losses.back(), losses.front() - 0.3);

  const auto model = hooked::HookedTransformer::load(folder.path().string());
  const auto logits = model(model.to_tokens("When John and Mary went to the shop"));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

TEST(TrainToyModel, SaysHowItIsUsed) {
  const auto finished = run_program("train_toy_model", "--steps 20");
  EXPECT_NE(finished.status, 0);
  EXPECT_THAT(finished.output, HasSubstr("usage: train_toy_model --out FOLDER"));
}

TEST(Examples, FirstStepsRuns) {
  const auto finished = run_program("first_steps", "\"" + kModel.string() + "\"");
  EXPECT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("without that head"));
}

TEST(Examples, TheReadmesCodeRuns) {
  const hooked::TempFolder folder;
  const auto picture = folder / "resid_pre.svg";
  const auto finished = run_program("readme", "\"" + kModel.string() + "\" \"" + picture.string() + "\"");
  EXPECT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("Patching resid_pre"));
  EXPECT_THAT(finished.output, HasSubstr("unembed bias"));
  EXPECT_THAT(read(picture), testing::StartsWith("<svg"));
}

TEST(Examples, TheReadmesPatchingMakesAPictureOfTwoMetrics) {
  const hooked::TempFolder folder;
  const auto picture = folder / "heads.svg";
  const auto finished = run_program(
      "readme_patching", "\"" + kModel.string() + "\" \"" HOOKED_SOURCE_DIR "/examples/pairs.jsonl\" \"" +
                             picture.string() + "\"");
  EXPECT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(read(picture), testing::AllOf(testing::StartsWith("<svg"), HasSubstr("logit difference"),
                                            HasSubstr("probability")));
}

// Its output is true for the model: where the answer is, and which heads bring it back.
TEST(Examples, ActivationPatchingFindsTheHeads) {
  const auto finished =
      run_program("activation_patching",
                  "\"" + kModel.string() + "\" \"" HOOKED_SOURCE_DIR "/examples/pairs.jsonl\" --device cpu");
  ASSERT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("6 pairs: logit difference "));
  EXPECT_THAT(finished.output, HasSubstr("layer \\ pos"));

  const auto model = hooked::HookedTransformer::load(kModel.string());
  const auto pairs = hooked::PromptPairs::load(model, HOOKED_SOURCE_DIR "/examples/pairs.jsonl");
  const auto metric = hooked::logit_difference(pairs.answers(), pairs.against());
  EXPECT_GT(metric.score(model, pairs.clean()).min().item<double>(), 1);
  EXPECT_LT(metric.score(model, pairs.corrupted()).max().item<double>(), -1);
  // By one run with the head's output replaced, all positions of prompts of one length.
  double most = -1;
  std::string best;
  const auto cache = model.run_with_cache(pairs.clean(), hooked::act::z).cache;
  const double low = metric.score(model, pairs.corrupted()).mean().item<double>();
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 4; ++head) {
      const auto edit = hooked::replace(hooked::act::z(layer).head(head), cache);
      const double back =
          metric.score(model, pairs.corrupted(), {.edits = {edit}}).mean().item<double>() - low;
      if (back <= most) continue;
      most = back;
      best = "heads  layer " + std::to_string(layer) + ", head " + std::to_string(head) + "  ";
    }
  }
  EXPECT_THAT(finished.output, HasSubstr(best));
}

TEST(Examples, ActivationPatchingSaysWhatIsWrong) {
  const auto finished = run_program("activation_patching", "\"" + kModel.string() + "\" absent.jsonl");
  EXPECT_NE(finished.status, 0);
  EXPECT_THAT(finished.output, HasSubstr("absent.jsonl"));
}

// The programs of docs/guide.md: each runs, and its output shows what the page promises.
class Guide : public testing::Test {
 protected:
  std::string output_of(const std::string& program) const {
    const auto finished =
        run_program(program, "\"" + kModel.string() + "\" \"" + folder_.path().string() + "\"");
    EXPECT_EQ(finished.status, 0) << finished.output;
    return finished.output;
  }

  hooked::TempFolder folder_;
};

TEST_F(Guide, Ablates) {
  const auto output = output_of("guide_ablate");
  EXPECT_THAT(output, HasSubstr("the answer has probability 0.9"));
  EXPECT_THAT(output, HasSubstr("head 1.3 looks at 'Mary'"));
  EXPECT_THAT(output, HasSubstr("without head 1.3: "));
}

TEST_F(Guide, Patches) {
  EXPECT_THAT(output_of("guide_patch"), HasSubstr("Patching z with another run, averaged over row"));
  EXPECT_THAT(read(folder_ / "heads.svg"), HasSubstr("<svg"));
}

/// The page's numbers are those of edits made by hand: means over both kinds of prompts, position by
/// position.
TEST_F(Guide, JudgesACircuit) {
  namespace act = hooked::act;
  const auto output = output_of("guide_circuit");
  const auto behind = [&](const std::string& mark) {
    const auto at = output.find(mark);
    EXPECT_NE(at, std::string::npos) << mark << " in\n" << output;
    return at == std::string::npos ? std::string() : output.substr(at + mark.size());
  };
  const auto number = [&](const std::string& mark) { return std::stod(behind(mark)); };

  const auto model = hooked::HookedTransformer::load(kModel.string());
  std::vector<hooked::PromptPair> list;
  const auto add = [&](const std::string& one, const std::string& two) {
    const auto prompt = [&](const std::string& giver) {
      return "When " + one + " and " + two + " went to the shop, " + giver + " gave a bag to";
    };
    list.push_back(
        {.clean = prompt(one), .corrupted = prompt(two), .answers = {" " + two}, .against = {" " + one}});
  };
  add("John", "Mary");
  add("Mary", "John");
  add("James", "Anna");
  add("Anna", "James");
  const hooked::PromptPairs pairs(model, list);
  const auto score = [&](const std::vector<hooked::Edit>& edits) {
    const auto last = model.run(pairs.clean(), {.edits = edits}).logits().select(1, -1);
    double sum = 0;
    for (std::int64_t row = 0; row < 4; ++row) {
      const auto name = [&](const auto& tokens) {
        return last[row][model.to_token(std::get<std::string>(tokens.front()))].template item<double>();
      };
      const auto& pair = list[static_cast<std::size_t>(row)];
      sum += name(pair.answers) - name(pair.against);
    }
    return sum / 4;
  };
  const auto clean = model.run_with_cache(pairs.clean()).cache,
             corrupted = model.run_with_cache(pairs.corrupted()).cache;
  const auto mean_of = [&](const hooked::Address& place) {
    return (clean[place].sum(0, true) + corrupted[place].sum(0, true)) / 8;
  };
  const auto ablated = [&](const std::vector<hooked::Address>& places) {
    std::vector<hooked::Edit> edits;
    for (const hooked::Address& place : places) edits.push_back(hooked::set(place, mean_of(place)));
    return score(edits);
  };
  EXPECT_NEAR(number("logit difference: "), score({}), 1e-3);

  std::istringstream table(
      behind("Patching z with the mean over 8 rows, by position, averaged over row (logit difference)\n"));
  std::string head_line;
  std::getline(table, head_line);
  std::vector<hooked::Address> parts;
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    double number_of_layer = -1, value = 0;
    table >> number_of_layer;
    EXPECT_EQ(number_of_layer, layer) << output;
    for (std::int64_t head = 0; head < 4; ++head) {
      table >> value;
      parts.emplace_back(act::z(layer).head(head));
      EXPECT_NEAR(value, ablated({parts.back()}), 2e-3) << layer << '.' << head;
    }
  }
  const std::vector<hooked::Address> mlps{act::mlp_out(0), act::mlp_out(1)};
  const std::vector<hooked::Address> own{parts[2], parts[3], mlps[0], mlps[1]};
  std::vector<hooked::Address> rest{parts[0], parts[1]}, all = parts;
  rest.insert(rest.end(), parts.begin() + 4, parts.end());
  all.insert(all.end(), mlps.begin(), mlps.end());
  const double whole = score({}), none = ablated(all), circuit = ablated(rest), without = ablated(own);
  EXPECT_NEAR(number("everything ablated "), none, 1e-3);
  EXPECT_NEAR(number(", circuit "), circuit, 1e-3);
  EXPECT_NEAR(number(", the rest "), without, 1e-3);
  EXPECT_NEAR(number("faithfulness "), (circuit - none) / (whole - none), 1e-3);
  EXPECT_NEAR(number(", completeness "), (whole - without) / (whole - none), 1e-3);
  EXPECT_THAT(output, HasSubstr("Patching paths with another run"));
  EXPECT_NEAR(number("6 of 10 parts ablated: "), circuit, 1e-3);

  // The last table: that circuit, and the four heads whose ablation changes the score most.
  std::vector<hooked::Address> heads = parts;
  std::ranges::sort(heads, std::ranges::greater(),
                    [&](const hooked::Address& head) { return std::abs(ablated({head}) - whole); });
  std::vector<hooked::Address> others(heads.begin() + 4, heads.end());
  others.insert(others.end(), mlps.begin(), mlps.end());
  const std::string last = output.substr(output.rfind("circuit "));
  for (const double score : {circuit, ablated(others)})
    EXPECT_THAT(last, HasSubstr(fmt::format("{:.3f}", score)));
}

TEST_F(Guide, Steers) {
  const auto output = output_of("guide_steer");
  const auto line_of = [&](const std::string& strength) {
    const auto begin = output.find(strength + ": ");
    EXPECT_NE(begin, std::string::npos) << output;
    return output.substr(begin + strength.size(), output.find('\n', begin) - begin - strength.size());
  };
  EXPECT_THAT(line_of("0"), HasSubstr("Mary"));
  EXPECT_NE(line_of("0"), line_of("4")) << output;
  // What is projected out is no longer there; a later edit leaves the first new token as it was.
  EXPECT_NE(line_of("without"), line_of("0")) << output;
  EXPECT_NE(line_of("later"), line_of("0")) << output;
  EXPECT_TRUE(line_of("later").starts_with(line_of("0").substr(0, line_of("0").find("Mary") + 4))) << output;
}

TEST_F(Guide, AttributesAllOfTheLogit) {
  const auto model = hooked::HookedTransformer::load(kModel.string());
  const auto logits = model("When John and Mary went to the shop, John gave a bag to")[0][-1];
  const auto difference = (logits[model.to_token(" Mary")] - logits[model.to_token(" John")]).item<double>();
  const auto output = output_of("guide_attribute");
  const std::string_view mark = "all parts together  ";
  ASSERT_THAT(output, HasSubstr(std::string(mark)));
  EXPECT_NEAR(std::stod(output.substr(output.find(mark) + mark.size())), difference, 1e-3);
}

// The programs of docs/analysis/.
TEST_F(Guide, ComputesWithGrids) {
  const auto output = output_of("analysis_grid");
  EXPECT_THAT(output, HasSubstr("Attention to the previous token, averaged over row"));
  const auto read = hooked::Grid::load(folder_ / "scores.safetensors");
  EXPECT_TRUE(read.values().equal(hooked::Grid::load(folder_ / "scores.csv").values()));
  const auto strongest = read.largest(1, hooked::LargestBy::size).at(0);
  EXPECT_THAT(output, HasSubstr("layer " + strongest.labels[1] + ", head " + strongest.labels[2]));
}

TEST_F(Guide, ReadsTheStreamAndItsParts) {
  const auto output = output_of("analysis_lens");
  EXPECT_THAT(output, HasSubstr("row 1, pos "));
  EXPECT_THAT(output, HasSubstr("head 1.3"));
  EXPECT_THAT(output, HasSubstr("blocks.1.attn.hook_result[head=3,pos=last]"));
  EXPECT_THAT(read(folder_ / "lens.svg"), HasSubstr("resid_post 1"));
}

TEST_F(Guide, LooksAtHeads) {
  const auto output = output_of("analysis_heads");
  EXPECT_THAT(output, HasSubstr("Attention to what followed earlier occurrences of the same token"));
  EXPECT_THAT(output, HasSubstr("looks there"));
  EXPECT_THAT(output, HasSubstr("share of all attention"));
  EXPECT_EQ(hooked::read_prompt_pairs(folder_ / "indirect_object.jsonl").size(), 16U);
}

TEST_F(Guide, ReadsCircuits) {
  const auto output = output_of("analysis_circuits");
  EXPECT_THAT(output, HasSubstr("rank 32"));
  EXPECT_THAT(output, HasSubstr("random heads: "));
  EXPECT_THAT(output, HasSubstr("Eigenvalues of the full OV circuit"));
  EXPECT_THAT(read(folder_ / "composition.svg"), HasSubstr("<svg"));
}

TEST_F(Guide, FindsTheRouteToAnInductionHead) {
  const auto output = output_of("analysis_induction");
  EXPECT_THAT(output, HasSubstr("head 1.1 gives it 0.9"));
  EXPECT_THAT(output, HasSubstr("head 0.1 looks for head 0.0: "));  // which looks at the token before
  EXPECT_THAT(output, HasSubstr("Composition by keys: head 0.0, "));
}

TEST_F(Guide, FindsACircuit) {
  const auto output = output_of("analysis_gradients");
  EXPECT_THAT(output, HasSubstr("correlation with patching: "));
  EXPECT_THAT(output, HasSubstr("4 nodes: faithfulness "));
  EXPECT_THAT(output, HasSubstr("straight to the logits: "));
  EXPECT_THAT(read(folder_ / "edges.svg"), HasSubstr("head 1.3 q"));
  EXPECT_THAT(read(folder_ / "circuit.json"), HasSubstr("hooked circuit 1"));
}

// One feature decides, and the graph's strongest path through an MLP passes the head and the MLP that
// patching finds.
TEST_F(Guide, FindsFeaturesAndTheirGraph) {
  const auto output = output_of("analysis_features");
  std::smatch lost, feature;
  ASSERT_TRUE(std::regex_search(
      output, lost, std::regex("loses ([0-9.e+-]+), without the median of ([0-9]+) features ([0-9.e+-]+)")));
  EXPECT_GE(std::stoi(lost[2]), 20);
  EXPECT_GT(std::stod(lost[1]), 5);
  EXPECT_LT(std::abs(std::stod(lost[3])), 0.1);
  ASSERT_TRUE(std::regex_search(output, feature, std::regex("feature ([0-9]+)\\.[0-9]+ @([0-9]+)\n")));
  EXPECT_THAT(output,
              HasSubstr("blocks." + feature[1].str() + ".hook_mlp_out[pos=" + feature[2].str() + "]: "));
  EXPECT_THAT(output, HasSubstr("\nblocks.1.attn.hook_z[head=3]: "));

  const auto model =
      hooked::HookedTransformer::load(kModel.string(), {.processing = hooked::WeightProcessing::none()});
  const auto transcoders =
      hooked::DictionarySet::load((kModel.parent_path() / "toy_transcoders").string()).members();
  const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to");
  const auto graph = hooked::pruned(hooked::attribute_graph(model, transcoders, tokens));
  const auto paths = hooked::strongest_paths(graph);
  const auto path = std::ranges::find_if(paths, [](const auto& each) { return each.nodes.size() == 3; });
  ASSERT_NE(path, paths.end());
  const auto heads =
      hooked::edge_heads(model, transcoders, tokens, graph, {{path->nodes[0], path->nodes[1]}});
  const auto layer = heads.slice("edge", 0).slice("layer", 1).values();
  EXPECT_GT((layer[3] / layer.sum()).item<double>(), 0.2) << "head 1.3 carries a good part of it";
  EXPECT_EQ(hooked::load_graph(folder_ / "graph.json").features, graph.features);
}

TEST_F(Guide, TalksThroughATemplate) {
  const auto output = output_of("chat");
  EXPECT_THAT(output, HasSubstr("When John and Mary went to the shop, John gave a bag to"));
  EXPECT_THAT(output, HasSubstr("Mary"));
}

TEST_F(Guide, FollowsPaths) {
  const auto output = output_of("analysis_paths");
  EXPECT_THAT(output, HasSubstr("John looks at the Mary before it with "));
  EXPECT_THAT(output, HasSubstr(" % is read, by chance "));
  EXPECT_THAT(output, HasSubstr("embed by 0.1 > 1.3: "));
  EXPECT_THAT(output, HasSubstr("Singular directions of ov_written 1.3"));
  EXPECT_THAT(output, HasSubstr("no arrangement less than "));
  EXPECT_THAT(read(folder_ / "paths.svg"), HasSubstr("<svg"));
}

TEST_F(Guide, TakesTheStreamApart) {
  const auto output = output_of("analysis_residual");
  EXPECT_THAT(output, HasSubstr("14 places: Parts of blocks.1.hook_resid_post"));
  EXPECT_THAT(output, HasSubstr("head 1.3 from 4 Mary: "));
  EXPECT_THAT(output, HasSubstr("(rank)"));
  EXPECT_THAT(read(folder_ / "sources.svg"), HasSubstr("head 1.3"));
}

TEST_F(Guide, MeasuresNorms) {
  const auto output = output_of("layernorm");
  EXPECT_THAT(output, HasSubstr("normed length"));
  EXPECT_THAT(output, HasSubstr("without mlp 1: "));
  EXPECT_THAT(output, HasSubstr("error with scale"));
}

TEST_F(Guide, ScoresPairs) {
  const auto output = output_of("analysis_pairs");
  EXPECT_THAT(output, HasSubstr("CPUFloatType{2}"));
  const auto model = hooked::HookedTransformer::load(kModel.string());
  const auto pairs = hooked::PromptPairs::load(model, folder_ / "pairs.jsonl");
  const auto metric = hooked::logit_difference(pairs.answers(), pairs.against());
  EXPECT_GT(metric.score(model, pairs.clean()).min().item<double>(), 1);
  EXPECT_LT(metric.score(model, pairs.corrupted()).max().item<double>(), -1);
  const auto head = hooked::attention(hooked::act::pattern(1).head(3), hooked::Position::last(),
                                      pairs.clean_place("giver"));
  EXPECT_LT(head.score(model, pairs.clean()).max().item<double>(), 0.5) << "it looks at the other name";
}

// docs/tour.md.
TEST_F(Guide, DoesTheTasksOfTheTour) {
  const auto output = output_of("tour");
  const auto mary = hooked::HookedTransformer::load(kModel.string()).to_token(" Mary");
  EXPECT_EQ(output.find(std::to_string(mary)), output.find_first_of("0123456789")) << output;
  EXPECT_THAT(output, HasSubstr("[1, 15, 128]"));
  EXPECT_THAT(read(folder_ / "attention.svg"), HasSubstr("Mary"));
  EXPECT_THAT(read(folder_ / "patching.svg"), HasSubstr("<svg"));
}

TEST_F(Guide, CollectsARowForEachPrompt) {
  EXPECT_THAT(output_of("guide_collect"), HasSubstr("wrote [500, 128]"));
  EXPECT_THAT(output_of("guide_collect"), HasSubstr("rows 0 and 1 differ more than rows 0 and 2"));
  const auto file = hooked::SafetensorsFile::open(folder_ / "collected.safetensors");
  const auto rows = file.read("resid_post1");
  const auto model = hooked::HookedTransformer::load(kModel.string());
  const auto alone = model.run_with_cache("Then Mary", "resid_post1").cache["resid_post1[pos=last]"][0];
  EXPECT_LT((rows[1] - alone).abs().max().item<double>(), 1e-4)
      << "padded on the right, it is the same token";
}

TEST(Examples, TheCallsForTransformerLensRun) {
  const hooked::TempFolder folder;
  const auto finished =
      run_program("from_transformerlens", "\"" + kModel.string() + "\" \"" + folder.path().string() + "\"");
  EXPECT_EQ(finished.status, 0) << finished.output;
  for (const char* what :
       {"the sum of the parts", "the sum of direct_logit_attribution", "a patched run by hand"})
    EXPECT_THAT(finished.output, HasSubstr(std::string("the same: ") + what));
  EXPECT_THAT(finished.output, HasSubstr("watched [1, 19, 128]"));
}

TEST(Examples, TheFiguresAreDrawn) {
  const hooked::TempFolder folder;
  const auto finished =
      run_program("figures", "\"" + kModel.string() + "\" \"" + folder.path().string() + "\"");
  EXPECT_EQ(finished.status, 0) << finished.output;
  for (const char* picture : {"attention.svg", "resid_pre.svg", "cosine.svg"}) {
    EXPECT_THAT(read(folder / picture), testing::StartsWith("<svg")) << picture;
    EXPECT_THAT(read(std::filesystem::path(HOOKED_SOURCE_DIR) / "docs" / "pictures" / picture),
                testing::StartsWith("<svg"))
        << picture;
  }
}

TEST(Examples, TheDemoRunsAndSavesItsPicture) {
  const hooked::TempFolder folder;
  const auto finished = run_program("demo", "\"" + kModel.string() + "\" \"" + folder.path().string() + "\"");
  EXPECT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("Find the induction heads"));

  for (const char* picture : {"resid_pre.svg", "z.svg"}) {
    EXPECT_THAT(read(folder / picture), HasSubstr("share of the clean answer restored"));
  }
}

TEST(Examples, TheDemoLeavesNothingWhereItIsStarted) {
  const hooked::TempFolder folder;
  std::filesystem::create_directories(folder / "tmp");
  std::filesystem::create_directories(folder / "work");
  std::filesystem::create_symlink(kModel.parent_path(), folder / "work/examples");
  const auto finished =
      hooked::run_command("cd \"" + (folder / "work").string() + "\" && TMPDIR=\"" +
                          (folder / "tmp").string() + "\" \"" HOOKED_BINARY_DIR "/bin/demo\"");
  ASSERT_EQ(finished.status, 0) << finished.output;
  const auto files_in = [&](const char* name) {
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::directory_iterator(folder / name)) files.push_back(file.path());
    return files;
  };
  EXPECT_EQ(files_in("work"), std::vector{folder / "work/examples"});
  const auto made = files_in("tmp");
  ASSERT_EQ(made.size(), 1u);
  for (const char* picture : {"resid_pre.svg", "z.svg"}) {
    EXPECT_TRUE(std::filesystem::exists(made.front() / picture));
    EXPECT_THAT(finished.output, HasSubstr((made.front() / picture).string()));
  }
}

TEST(Examples, TheDemoAndInfoCountTheSameParameters) {
  const hooked::TempFolder folder;
  const auto arguments = "\"" + kModel.string() + "\"";
  const auto parameters = std::to_string(hooked::describe(kModel.string()).parameters);
  EXPECT_THAT(run_program("demo", arguments + " \"" + folder.path().string() + "\"").output,
              HasSubstr(parameters + " parameters"));
  EXPECT_THAT(run_program("hooked", "info --json " + arguments).output,
              HasSubstr("\"parameters\":" + parameters + ","));
}

TEST(Examples, TheDemoSaysWhatIsWrong) {
  const hooked::TempFolder folder;
  const auto finished = run_program("demo", "\"" + (folder / "absent").string() + "\"");
  EXPECT_NE(finished.status, 0);
  EXPECT_THAT(finished.output, HasSubstr("absent"));
}

}  // namespace
}  // namespace toy::toy_model_test
