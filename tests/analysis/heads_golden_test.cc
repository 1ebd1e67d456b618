// Scores of heads against what TransformerLens's detect_head returned in float64 (tests/golden/README.md).
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/analysis/heads.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/support/goldens.h"

namespace hooked::heads_golden_test {
namespace {

constexpr double kTolerance = 1e-9;
const std::filesystem::path kGolden = std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/golden";

const Json& index() {
  static const Json read = Json::parse(std::ifstream(kGolden / "heads.json"));
  return read;
}

HeadScore score_named(const std::string& theirs) {
  return head_score_row(theirs == "induction_head" ? "induction" : theirs.substr(0, theirs.rfind("_head")))
      .score;
}

struct Batch {
  std::string model, folder, name;
  std::vector<std::string> steps;  ///< of the processed weights that were recorded; none: raw
};

void PrintTo(const Batch& batch, std::ostream* out) {
  *out << batch.model << ' ' << batch.name << (batch.steps.empty() ? "" : " folded");
}

std::vector<Batch> batches() {
  std::vector<Batch> all;
  for (const auto& row : index().at("models")) {
    for (const char* name : {"whole", "padded"}) {
      all.push_back({row.at("model"), row.at("folder"), name, {}});
      if (row.contains("folded"))
        all.push_back(
            {row.at("model"), row.at("folder"), name, row.at("folded").get<std::vector<std::string>>()});
    }
  }
  return all;
}

class HeadsGolden : public testing::TestWithParam<Batch> {
 protected:
  HeadsGolden() {
    std::vector<ProcessingStep> steps;
    for (const auto& name : GetParam().steps) steps.push_back(parse_processing_step(name));
    const auto model =
        HookedTransformer::load((kGolden / GetParam().folder).string(),
                                {.dtype = at::kDouble, .processing = WeightProcessing::only(steps)});
    Input input{tokens_};
    if (GetParam().name == "padded") input.attention_mask = tensors_.at(prefix_ + "attention_mask");
    cache_ = model.run_with_cache(input, act::pattern).cache;
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
        // Of several prompts TransformerLens gives the mean.
        options.rows = HeadRows::mean;
        EXPECT_LE((score(options).values() - recorded.mean(0)).abs().max().template item<double>(),
                  kTolerance);
      }
    }
    // Two of the three padded rows have no number by "abs" and without column 0.
    EXPECT_EQ(compared, GetParam().name == "whole" ? theirs.numel() : theirs.numel() / 2);
  }

  std::map<std::string, at::Tensor> tensors_ = read_tensors(kGolden / "heads.safetensors");
  std::string prefix_ = GetParam().model + "." + GetParam().name + ".";
  at::Tensor tokens_ = tensors_.at(prefix_ + "tokens");
  ActivationCache cache_;
};

TEST_P(HeadsGolden, EqualsWhatTransformerLensReturns) {
  const auto& [model, folder, batch, steps] = GetParam();
  const auto& theirs = tensors_.at(model + (steps.empty() ? "." : ".folded.") + batch + ".scores");
  for (std::size_t p = 0; p < index().at("patterns").size(); ++p) {
    const auto score = score_named(index().at("patterns")[p]);
    SCOPED_TRACE(head_score_row(score).name);
    compare(theirs[static_cast<std::int64_t>(p)],
            [&](const HeadScoreOptions& options) { return head_scores(cache_, score, options); });
  }
}

// A tensor as its detection_pattern, of other numbers than 0 and 1.
TEST_P(HeadsGolden, EqualsWhatItReturnsOfAPatternOfOnesOwn) {
  compare(tensors_.at(prefix_ + "given"), [&](const HeadScoreOptions& options) {
    return head_scores(cache_, tensors_.at("given"), options);
  });
}

INSTANTIATE_TEST_SUITE_P(All, HeadsGolden, testing::ValuesIn(batches()), [](const auto& info) {
  return info.param.model + "_" + info.param.name + (info.param.steps.empty() ? "" : "_folded");
});

}  // namespace
}  // namespace hooked::heads_golden_test
