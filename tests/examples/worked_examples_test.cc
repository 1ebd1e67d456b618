// The worked examples find what docs/worked-examples.md says: what they print is read here.
#include <ATen/core/Tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "examples/modular_addition/addition_task.h"
#include "hooked/hooked.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace hooked::worked_examples_test {
namespace {

using testing::HasSubstr;

const std::filesystem::path kExamples = std::filesystem::path(HOOKED_SOURCE_DIR) / "examples";

/// What a program prints, with a folder of examples/ as its only argument; or without one.
std::string printed_by(const std::string& program, const char* folder = nullptr) {
  const auto finished =
      run_program(program, folder == nullptr ? "" : "\"" + (kExamples / folder).string() + "\"");
  EXPECT_EQ(finished.status, 0) << finished.output;
  return finished.output;
}

/// The numbers at the groups of a pattern, of each match.
std::vector<std::vector<double>> numbers_in(const std::string& text, const std::string& pattern) {
  std::vector<std::vector<double>> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.emplace_back();
    for (std::size_t i = 1; i < match->size(); ++i) found.back().push_back(std::stod((*match)[i]));
  }
  EXPECT_FALSE(found.empty()) << pattern << " is not in:\n" << text;
  if (found.empty()) found.emplace_back(std::count(pattern.begin(), pattern.end(), '('), 0.0);
  return found;
}

TEST(ModularAddition, AFewFrequenciesAreTheRule) {
  const auto output = printed_by("modular_addition", "modular_addition/model");
  const auto right =
      numbers_in(output, "right: ([0-9.]+) % of ([0-9]+) pairs, ([0-9.]+) % of ([0-9]+)").front();
  EXPECT_EQ(right[0], 100) << "of all pairs";
  EXPECT_EQ(right[2], 100) << "of pairs that the training saw in neither order";
  EXPECT_GT(right[3], 1000);
  const auto waves = numbers_in(output, "([0-9]+) of 33 frequencies explain ([0-9.]+) %").front();
  EXPECT_GE(waves[0], 1);
  EXPECT_LE(waves[0], 6);
  EXPECT_GE(waves[1], 95);
  const auto neurons = numbers_in(output, "([0-9]+) of ([0-9]+) active neurons have a key").front();
  EXPECT_GE(neurons[0], 0.9 * neurons[1]);
  EXPECT_LE(numbers_in(output, "without the key frequencies in the embedding: ([0-9.]+) %").front()[0], 10);
  EXPECT_GE(numbers_in(output, "without all other frequencies in the embedding: ([0-9.]+) %").front()[0], 90);
}

TEST(ModularAddition, TheTrainingSeesTwoFifthsOfThePairs) {
  const auto pairs = addition::all_pairs(7);
  EXPECT_EQ(pairs.tokens[16][0].item<std::int64_t>(), 2);
  EXPECT_EQ(pairs.tokens[16][1].item<std::int64_t>(), 2);
  EXPECT_EQ(pairs.tokens[16][2].item<std::int64_t>(), 7);
  EXPECT_EQ(pairs.sums[16].item<std::int64_t>(), 4);
  EXPECT_EQ(pairs.sums[48].item<std::int64_t>(), 5) << "6 + 6 mod 7";
  const auto seen = addition::seen_in_training(67);
  EXPECT_NEAR(seen.sum().item<double>() / (67 * 67), 0.4, 0.03);
}

TEST(ModularAddition, TheModelIsSmall) {
  EXPECT_LE(std::filesystem::file_size(kExamples / "modular_addition/model/model.safetensors"), 125'000u);
}

TEST(TrainModularAddition, TwentyStepsLowerTheLossAndWriteAModelThatLoads) {
  const TempFolder folder;
  const auto finished =
      run_program("train_modular_addition", "--steps 20 --out \"" + folder.path().string() + "\"");
  ASSERT_EQ(finished.status, 0) << finished.output;
  const auto losses = numbers_in(finished.output, "loss: seen ([0-9.e+-]+)");
  ASSERT_EQ(losses.size(), 20u);
  EXPECT_LT(losses.back()[0], losses.front()[0] - 0.02);
  const auto model = HookedTransformer::load(folder.path().string());
  EXPECT_EQ(model.config(),
            HookedTransformer::load((kExamples / "modular_addition/model").string()).config());
  EXPECT_TRUE(addition::sum_logits(model, addition::all_pairs(model.config().d_vocab_out()))
                  .isfinite()
                  .all()
                  .item<bool>());
  EXPECT_NE(run_program("train_modular_addition", "--steps 20").status, 0);
}

TEST(ToySuperposition, SparseFeaturesShareDimensionsAndDenseOnesDoNot) {
  const auto output = printed_by("toy_superposition");
  const auto error = numbers_in(output, "step [0-9]+: error ([0-9.]+)");
  EXPECT_LT(error.back()[0], error.front()[0] / 2);
  const auto models = numbers_in(
      output,
      "zero ([0-9]+) % of the time: ([0-9]+) features in ([0-9]+) dimensions, largest cosine ([0-9.]+) "
      "\\(at least ([0-9.]+)\\), expected interference ([0-9.]+)");
  ASSERT_EQ(models.size(), 4u);
  EXPECT_EQ(models[0][1], models[0][2]) << "dense: a dimension for each";
  EXPECT_LT(models[0][3], 0.05);
  for (std::size_t i = 1; i < models.size(); ++i) {
    EXPECT_GT(models[i][1], models[i - 1][1]) << "the sparser, the more";
    EXPECT_GE(models[i][3] + 0.005, models[i][4]) << "Welch's bound";
  }
  EXPECT_GE(models[3][1], 3 * models[3][2]);
  const auto dense = numbers_in(output, "never zero: expected interference ([0-9.]+)").front()[0];
  EXPECT_GE(dense, 10 * models[3][5]);
}

// The found set of heads is held against all others of its size.
TEST(IndirectObjectCircuit, NoOtherSetOfItsSizeDoesTheSame) {
  const auto output = printed_by("indirect_object_circuit", "toy_model");
  const auto lead =
      numbers_in(output, "right name ahead by ([0-9.-]+) logits; other giver: ([0-9.-]+)").front();
  EXPECT_GT(lead[0], 4);
  EXPECT_LT(lead[1], -4);
  const auto found = numbers_in(
      output,
      "head ([0-9])\\.([0-9]) carries ([0-9.]+) %; at the end it attends to the giver with ([0-9.]+) %");
  EXPECT_EQ(found.size(), 2u);
  for (const auto& head : found) EXPECT_GE(head[3], 90);
  const auto paths = numbers_in(output, "([0-9.]+) % goes");
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_LT(paths[0][0], 30) << "straight";
  EXPECT_GT(paths[1][0], 90) << "through MLPs";

  const auto sets = numbers_in(
      output,
      "the found set loses ([0-9.-]+), ([0-9]+) sets disjoint from it ([0-9.-]+) in the median, any of "
      "([0-9]+) other sets at most ([0-9.-]+)");
  const auto alone = numbers_in(output, "alone it keeps ([0-9.-]+) %, any other set at most ([0-9.-]+) %");
  ASSERT_EQ(sets.size(), 2u);
  ASSERT_EQ(alone.size(), 2u);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    EXPECT_GE(sets[i][0], 3 * std::max(sets[i][2], 0.0));
    EXPECT_EQ(sets[i][1], 15);  // of 6 heads, 2
    EXPECT_EQ(sets[i][3], 27);  // of 8 heads, 2, without the found ones
    EXPECT_GT(sets[i][0], sets[i][4]) << "no other set costs as much";
    EXPECT_GT(alone[i][0], alone[i][1]) << "no other set keeps as much";
  }
  EXPECT_GE(alone[0][0], 80) << "everything else reads the prompt with the other giver";
  EXPECT_NEAR(alone[1][0], 79, 3) << "everything else reads any prompt: docs/worked-examples.md says why";
}

TEST(InductionHeads, AreFoundFromActivationsFromWeightsAndByPatching) {
  const auto output = printed_by("analysis_induction", "toy_model");
  const auto head = numbers_in(output, "head ([0-9])\\.([0-9]) gives it ([0-9.]+)").front();
  EXPECT_GE(head[2], 0.9);
  const auto keys = numbers_in(output, "Composition by keys: head ([0-9])\\.([0-9]), ([0-9.]+) dev").front();
  EXPECT_LT(keys[0], head[0]) << "an earlier layer";
  EXPECT_GE(keys[2], 10);
  const auto patched = numbers_in(output,
                                  "what followed: ([0-9.e-]+), without head ([0-9])\\.([0-9]) ([0-9.e-]+), "
                                  "without ([0-9]+) such heads "
                                  "([0-9.e-]+), without what its keys read ([0-9.e-]+)")
                           .front();
  EXPECT_NEAR(patched[0], 0, 0.01);
  EXPECT_EQ(patched[1], head[0]);
  EXPECT_EQ(patched[2], head[1]);
  EXPECT_NEAR(patched[3], 0, 0.01) << "others replace it";
  EXPECT_EQ(patched[4], 4);
  EXPECT_LT(patched[5], -5);
  EXPECT_LT(patched[6], -3) << "nothing replaces the head that looks at the token before";
}

/// What induction_positions prints about one of its models.
struct InductionFound {
  std::vector<double> right;    // % of the repeated words, and of the others
  double places;                // % of the variance before layer 1
  std::vector<double> looks;    // at what followed, of the second layer's heads
  std::vector<double> without;  // log-probability: as it is, without the first layer in queries, keys, values
};

InductionFound induction_found(const std::string& output, const std::string& positions) {
  const auto begin = output.find(positions + " positions:");
  EXPECT_NE(begin, std::string::npos) << output;
  const auto end = output.find(" positions:", begin + positions.size() + 1);
  const std::string part = output.substr(begin, end == std::string::npos ? end : end - begin);
  InductionFound found{
      .right = numbers_in(part, "([0-9.]+) % of the repeated words right, ([0-9.]+) % of the others").front(),
      .places = numbers_in(part, "places explain ([0-9.]+) %").front()[0],
      .looks = {},
      .without = numbers_in(part,
                            "what followed: ([0-9.-]+), without the first layer in queries ([0-9.-]+), "
                            "[a-z ]+ keys ([0-9.-]+), [a-z ]+ values ([0-9.-]+)")
                     .front()};
  for (const auto& head : numbers_in(part, "head 1\\.[0-9] gives ([0-9.]+) of its attention"))
    found.looks.push_back(head[0]);
  return found;
}

TEST(InductionPositions, WithShortformersTheHeadsAreWhereOneLooksForThem) {
  const auto output = printed_by("induction_positions", "induction_heads");
  const auto learned = induction_found(output, "learned"),
             shortformer = induction_found(output, "shortformer");
  for (const auto& found : {learned, shortformer}) {
    EXPECT_GE(found.right[0], 99);
    EXPECT_LE(found.right[1], 10);
    EXPECT_EQ(found.looks.size(), 4u);
    EXPECT_GE(found.without[0], -0.05);
    EXPECT_GE(found.without[1], -0.1) << "queries know nothing of the first layer";
    EXPECT_LE(found.without[2], -5) << "keys do";
  }
  EXPECT_GE(shortformer.looks.front(), 0.8);
  EXPECT_LE(learned.looks.front(), 0.4) << "as good without such a head";
  EXPECT_GE(shortformer.without[3], -4) << "values are the token itself for the most part";
  EXPECT_LE(learned.without[3], -10) << "values copy what the first layer moved";
}

TEST(TrainInductionHeads, TwentyStepsLowerTheLossAndWriteAModelThatLoads) {
  for (const char* positions : {"learned", "shortformer"}) {
    const TempFolder folder;
    const auto finished =
        run_program("train_induction_heads", std::string("--steps 20 --positions ") + positions +
                                                 " --out \"" + folder.path().string() + "\"");
    ASSERT_EQ(finished.status, 0) << finished.output;
    const auto losses = numbers_in(finished.output, "loss: ([0-9.]+)");
    ASSERT_EQ(losses.size(), 20u);
    EXPECT_LT(losses.back()[0], losses.front()[0] - 0.02) << positions;
    const auto model = HookedTransformer::load(folder.path().string());
    EXPECT_EQ(model.config(),
              HookedTransformer::load((kExamples / "induction_heads" / positions).string()).config());
    EXPECT_EQ(model.config().shortformer(), positions == std::string("shortformer"));
  }
  const auto refused = run_program("train_induction_heads", "--positions rotary --out x");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.output, HasSubstr("'--positions rotary' is not known; usage: train_induction_heads"));
}

}  // namespace
}  // namespace hooked::worked_examples_test
