// The parts of attention scores of every head add up to the scores that the run has, also where these are
// capped and where something is added to them for the distance: golden checkpoints of such families, in
// float64.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

#include "hooked/analysis/score_attribution.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/golden_model.h"

namespace hooked::score_families_test {
namespace {

constexpr double kTolerance = 1e-10;  // of the largest number

class ScoresOfFamily : public testing::TestWithParam<const char*> {};

/// What is added for the distance of query and key, [row, query, key], given what the run's scores are
/// besides the sum of the parts; NaN where a query may not see.
void expect_bias(const HookedTransformer& model, const ActivationCache& cache, const Address& scores,
                 const at::Tensor& besides) {
  const auto seen = besides.isnan().logical_not();
  const auto rest = at::where(seen, besides, 0.0);
  const ModelConfig& config = model.config();
  if (config.relative() != nullptr) {
    const auto head = std::get<std::int64_t>(scores.indices().find(Axis::head)->value);
    // The first block makes it for all, or each its own.
    const auto layer = config.relative()->in_every_block ? scores.name().layer : 0;
    const auto bias = cache[act::relative_bias(layer)].select(1, head).to(at::kDouble).expand_as(rest);
    EXPECT_GT(largest_of(bias), 1e-3);
    EXPECT_LE(largest_of(at::where(seen, rest - bias, 0.0)), kTolerance * largest_of(bias));
    return;
  }
  if (config.alibi() == nullptr) {
    EXPECT_LE(largest_of(rest), kTolerance * std::max(1.0, largest_of(cache[scores].nan_to_num(0.0, 0, 0))));
    return;
  }
  // ALiBi: a number for the head times the distance, less what is the same for all keys of a query.
  const auto last = besides.size(2) - 1;
  const auto row = besides[0][last];  // [key]: the last query sees all keys
  const auto slope = row[1] - row[0];
  EXPECT_GT(slope.item<double>(), 1e-6);
  const auto key = at::arange(besides.size(2), at::kDouble);
  const auto expected = slope * (key.unsqueeze(0) - key.unsqueeze(1)) + row[last];  // [query, key]
  EXPECT_LE(largest_of(at::where(seen, rest - expected, 0.0)), kTolerance * (1 + largest_of(rest)));
}

TEST_P(ScoresOfFamily, AreTheSumsOfTheirParts) {
  for (const bool processed : {false, true}) {
    const auto run = golden_model(golden_case(GetParam()), processed);
    const ModelConfig& config = run.model.config();
    const double cap = config.score_soft_cap;
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
      for (std::int64_t head = 0; head < config.n_heads; ++head) {
        SCOPED_TRACE("layer " + std::to_string(layer) + ", head " + std::to_string(head));
        const Address address = act::attn_scores(layer).head(head);
        const auto grid =
            score_attribution(run.model, run.cache, {.scores = address, .queries = {}, .keys = {}});
        auto sums = grid.values().sum({1, 2});  // [row, query, key]
        EXPECT_FALSE(sums.isnan().any().item<bool>());
        if (cap > 0) sums = (sums / cap).tanh() * cap;
        const auto scores = run.cache[address].to(at::kDouble);
        const auto seen = scores.isinf().logical_not();
        EXPECT_GT(largest_of(at::where(seen, scores, 0.0)), 1e-3);
        expect_bias(run.model, run.cache, address,
                    (scores - sums).masked_fill(seen.logical_not(), std::nan("")));
        // The remainders are rounding.
        for (const char* side : {"query_part", "key_part"}) {
          EXPECT_LE(largest_of(grid.slice(side, "remainder").values()),
                    kTolerance * std::max(1.0, largest_of(grid.values())));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ScoresOfFamily,
                         testing::Values("gemma2", "hf_gemma2", "bloom", "mpt", "t5", "t5_gated",
                                         "umt5_plain", "llama", "mistral", "qwen3", "deepseek_v3",
                                         "falcon_parallel_alibi", "tl_score_cap_alibi",
                                         "tl_alibi_three_heads", "tl_grouped", "tl_multi_query",
                                         "tl_shortformer", "gpt2_inverse_layer"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hooked::score_families_test
