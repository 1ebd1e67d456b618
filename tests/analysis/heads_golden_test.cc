// Scores of heads against what TransformerLens's detect_head returned in float64 (tests/golden/README.md).
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ostream>

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
};

void PrintTo(const Batch& batch, std::ostream* out) { *out << batch.model << ' ' << batch.name; }

std::vector<Batch> batches() {
  std::vector<Batch> all;
  for (const auto& row : index().at("models")) {
    for (const char* name : {"whole", "padded"}) all.push_back({row.at("model"), row.at("folder"), name});
  }
  return all;
}

class HeadsGolden : public testing::TestWithParam<Batch> {};

TEST_P(HeadsGolden, EqualsWhatTransformerLensReturns) {
  const auto& [name, folder, batch] = GetParam();
  const auto tensors = read_tensors(kGolden / "heads.safetensors");
  const auto prefix = name + "." + batch + ".";
  const auto& tokens = tensors.at(prefix + "tokens");
  const auto& theirs = tensors.at(prefix + "scores");  // [pattern, measure, exclusions, row, layer, head]
  const auto model = HookedTransformer::load((kGolden / folder).string(),
                                             {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  Input input{tokens};
  if (batch == "padded") input.attention_mask = tensors.at(prefix + "attention_mask");
  const auto cache = model.run_with_cache(input, act::pattern).cache;
  std::int64_t compared = 0, absent = 0;
  for (std::size_t p = 0; p < index().at("patterns").size(); ++p) {
    for (std::size_t m = 0; m < index().at("measures").size(); ++m) {
      for (std::size_t e = 0; e < index().at("exclusions").size(); ++e) {
        const auto& exclusions = index().at("exclusions")[e];
        const auto measure = index().at("measures")[m] == "mul" ? HeadMeasure::mul : HeadMeasure::abs;
        HeadScoreOptions options{.tokens = tokens,
                                 .measure = measure,
                                 .exclude_bos = exclusions.at("exclude_bos"),
                                 .exclude_current_token = exclusions.at("exclude_current_token"),
                                 .rows = HeadRows::each};
        const auto score = score_named(index().at("patterns")[p]);
        const auto recorded = theirs[static_cast<std::int64_t>(p)][static_cast<std::int64_t>(m)]
                                    [static_cast<std::int64_t>(e)];  // [row, layer, head]
        const auto there = recorded.isnan().logical_not();
        const auto ours = head_scores(cache, score, options).values();
        ASSERT_EQ(ours.sizes(), recorded.sizes());
        EXPECT_LE((ours - recorded).masked_fill(recorded.isnan(), 0).abs().max().item<double>(), kTolerance)
            << index().at("patterns")[p] << ' ' << index().at("measures")[m] << ' ' << exclusions;
        compared += there.sum().item<std::int64_t>();
        absent += there.logical_not().sum().item<std::int64_t>();
        if (absent > 0) continue;
        // Of several prompts TransformerLens gives the mean.
        options.rows = HeadRows::mean;
        EXPECT_LE((head_scores(cache, score, options).values() - recorded.mean(0)).abs().max().item<double>(),
                  kTolerance);
      }
    }
  }
  const auto cells = theirs.numel();
  // Two of the three padded rows have no number by "abs" and without column 0.
  EXPECT_EQ(compared, batch == "whole" ? cells : cells / 2);
  EXPECT_EQ(compared + absent, cells);
}

INSTANTIATE_TEST_SUITE_P(All, HeadsGolden, testing::ValuesIn(batches()),
                         [](const auto& info) { return info.param.model + "_" + info.param.name; });

}  // namespace
}  // namespace hooked::heads_golden_test
