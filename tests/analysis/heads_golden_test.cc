// Scores of heads against what TransformerLens's detect_head returned in float64 (tests/golden/README.md).

#include <ostream>

#include "hooked/analysis/heads.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/analysis/analysis_goldens.h"
#include "tests/support/test.h"

namespace hooked::heads_golden_test {
namespace {

constexpr double kTolerance = 1e-9;

const Json& index() {
  static const Json read = analysis_index("heads");
  return read;
}

HeadScore score_named(const std::string& theirs) {
  return head_score_row(theirs == "induction_head" ? "induction" : theirs.substr(0, theirs.rfind("_head")))
      .score;
}

struct Batch {
  AnalysedWeights weights;
  std::string name;  ///< `whole` or `padded`
};

void PrintTo(const Batch& batch, std::ostream* out) { *out << batch.weights.name() << ' ' << batch.name; }

std::vector<Batch> batches() {
  std::vector<Batch> all;
  for (const AnalysedWeights& weights : analysed_weights("heads")) {
    for (const char* name : {"whole", "padded"}) all.push_back({weights, name});
  }
  return all;
}

class HeadsGolden : public testing::TestWithParam<Batch> {
 protected:
  HeadsGolden() {
    Input input{tokens_};
    if (GetParam().name == "padded") input.attention_mask = of_batch("attention_mask");
    cache_ = GetParam().weights.load().run_with_cache(input, act::pattern).cache;
  }

  const at::Tensor& of_batch(const std::string& name) const {
    return tensors_.at(GetParam().name + "." + name).tensor();
  }

  /// Compares each measure and exclusion, `theirs` [measure, exclusions, row, layer, head].
  template <typename Score>
  void compare(const at::Tensor& theirs, const Score& score) {
    std::int64_t compared = 0;
    for (std::size_t m = 0; m < index().at("measures").size(); ++m) {
      for (std::size_t e = 0; e < index().at("exclusions").size(); ++e) {
        const auto& exclusions = index().at("exclusions")[e];
        const auto measure = index().at("measures")[m] == "mul" ? HeadMeasure::mul : HeadMeasure::abs;
        HeadScoreOptions options{.tokens = tokens_,
                                 .measure = measure,
                                 .exclude_bos = exclusions.at("exclude_bos"),
                                 .exclude_current_token = exclusions.at("exclude_current_token"),
                                 .rows = HeadRows::each};
        const auto recorded =
            theirs[static_cast<std::int64_t>(m)][static_cast<std::int64_t>(e)];  // [row, layer, head]
        const auto there = recorded.isnan().logical_not();
        const auto ours = score(options).values();
        ASSERT_EQ(ours.sizes(), recorded.sizes());
        EXPECT_LE((ours - recorded).masked_fill(recorded.isnan(), 0).abs().max().template item<double>(),
                  kTolerance)
            << index().at("measures")[m] << ' ' << exclusions;
        compared += there.sum().template item<std::int64_t>();
        if (!there.all().template item<bool>()) continue;
        // For several prompts TransformerLens gives the mean.
        options.rows = HeadRows::mean;
        EXPECT_LE((score(options).values() - recorded.mean(0)).abs().max().template item<double>(),
                  kTolerance);
      }
    }
    // Two of the three padded rows have no number for "abs" without column 0.
    EXPECT_EQ(compared, GetParam().name == "whole" ? theirs.numel() : theirs.numel() / 2);
  }

  RecordedTensors tensors_ = GetParam().weights.model.read(GetParam().weights.processed);
  at::Tensor tokens_ = of_batch("tokens");
  ActivationCache cache_;
};

TEST_P(HeadsGolden, EqualsWhatTransformerLensReturns) {
  const at::Tensor& theirs = of_batch("scores");
  for (std::size_t p = 0; p < index().at("patterns").size(); ++p) {
    const auto score = score_named(index().at("patterns")[p]);
    SCOPED_TRACE(head_score_row(score).name);
    compare(theirs[static_cast<std::int64_t>(p)],
            [&](const HeadScoreOptions& options) { return head_scores(cache_, score, options); });
  }
}

// A tensor as its detection_pattern, of other numbers than 0 and 1.
TEST_P(HeadsGolden, EqualsWhatItReturnsOfAPatternOfOnesOwn) {
  compare(of_batch("given"), [&](const HeadScoreOptions& options) {
    return head_scores(cache_, tensors_.at("given").tensor(), options);
  });
}

INSTANTIATE_TEST_SUITE_P(All, HeadsGolden, testing::ValuesIn(batches()),
                         [](const auto& info) { return info.param.weights.name() + "_" + info.param.name; });

}  // namespace
}  // namespace hooked::heads_golden_test
