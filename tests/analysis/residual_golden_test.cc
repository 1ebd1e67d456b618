// The parts of the stream, of logits and of scores add up in every family: over all golden checkpoints, raw
// and processed, in float64.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/norm_geometry.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/score_attribution.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "tests/support/goldens.h"

namespace hooked::residual_golden_test {
namespace {

constexpr double kTolerance = 1e-10;  // of the largest number

struct Loaded {
  HookedTransformer model;
  Input input;
  RunResult run;
};

HookedTransformer load(const GoldenCase& golden, bool processed) {
  return HookedTransformer::load(
      golden.folder().string(),
      {.dtype = at::kDouble,
       .processing = processed ? WeightProcessing::all_that_apply() : WeightProcessing::none()});
}

/// The golden prompts, run with every activation kept.
Loaded loaded(const GoldenCase& golden, bool processed) {
  const auto recorded = read_golden(golden);
  auto model = load(golden, processed);
  const Input input{recorded.tokens,
                    {.attention_mask = recorded.attention_mask,
                     .token_types = recorded.token_types,
                     .decoder = {.tokens = recorded.decoder_tokens}}};
  auto run = model.run_with_cache(input, act::everything, {.output = Output::none});
  return {std::move(model), input, std::move(run)};
}

/// What is taken apart: points of the stream, what its norms make, what sublayers add.
std::vector<ActivationName> taken_apart(const HookedTransformer& model) {
  constexpr Site kSites[] = {Site::resid_pre,
                             Site::resid_mid,
                             Site::resid_mid_cross,
                             Site::resid_sum,
                             Site::resid_post,
                             Site::normalized_resid_post,
                             Site::full_embed,
                             Site::embed_ln_normalized,
                             Site::ln1_normalized,
                             Site::ln2_normalized,
                             Site::ln3_normalized,
                             Site::ln_final_normalized,
                             Site::encoder_final_ln_normalized,
                             Site::decoder_final_ln_normalized,
                             Site::attn_out,
                             Site::cross_attn_out,
                             Site::mlp_out};
  std::vector<ActivationName> names;
  for (const auto& name : model.names()) {
    // A norm of the embedding alone stands before its first part.
    if (name.site == Site::embed_ln_normalized && !model.config().embedding_sum_norm) continue;
    if (std::ranges::find(kSites, name.site) != std::end(kSites)) names.push_back(name);
  }
  return names;
}

double largest(const at::Tensor& x) { return x.nan_to_num(0.0).abs().max().item<double>(); }

/// Whether what is left over is nothing beside the whole.
testing::AssertionResult adds_up(const Grid& parts) {
  const auto remainder = parts.slice("part", "remainder").values();
  const auto whole = parts.values().sum(1), missing = parts.values().isnan();
  // Padding has no number in any part; elsewhere every part has one.
  if (!missing.any(1).equal(missing.all(1))) {
    return testing::AssertionFailure() << parts.title() << ": some parts alone are not numbers";
  }
  if (largest(remainder) <= kTolerance * largest(whole)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << parts.title() << ": " << largest(remainder) << " is left over of "
                                     << largest(whole);
}

class StreamOfGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(StreamOfGolden, PartsAddUpToEveryPoint) {
  for (const bool processed : {false, true}) {
    const auto [model, input, run] = loaded(GetParam(), processed);
    for (const auto& of : taken_apart(model)) {
      for (const auto grain : {Grain::layer, Grain::head, Grain::expert, Grain::neuron}) {
        const auto parts = residual_parts(model, run.cache, {.of = of, .grain = grain, .positions = {}});
        EXPECT_TRUE(adds_up(parts)) << (processed ? "processed" : "raw");
        EXPECT_GT(largest(parts.values()), 0);
      }
    }
  }
}

TEST_P(StreamOfGolden, PartsAlongDirectionsAreThoseOfTheirVectors) {
  const auto [model, input, run] = loaded(GetParam(), false);
  const auto d_model = model.config().d_model;
  const auto along = at::arange(2 * d_model, at::kDouble).sin().view({2, d_model});
  for (const auto grain : {Grain::layer, Grain::expert, Grain::neuron}) {
    const auto vectors = residual_parts(model, run.cache, {.grain = grain, .positions = {}});
    const auto read = residual_parts(model, run.cache, {.grain = grain, .along = along, .positions = {}});
    ASSERT_EQ(read.axis("part"), vectors.axis("part"));
    const auto expected = vectors.values().matmul(along.t());  // [row, part, pos, direction]
    EXPECT_LE(largest(read.values() - expected), kTolerance * std::max(1.0, largest(expected)));
    const auto one = residual_parts(model, run.cache, {.grain = grain, .along = along[1], .positions = {}});
    EXPECT_LE(largest(one.values() - expected.select(3, 1)), kTolerance * std::max(1.0, largest(expected)));
  }
}

TEST_P(StreamOfGolden, PaddedRowsAreTheirUnpaddedOnes) {
  const auto model = load(GetParam(), false);
  const auto recorded = read_golden(GetParam());
  constexpr std::int64_t kPadding = 2;
  const auto tokens = recorded.tokens.narrow(0, 0, 1);
  const auto length = tokens.size(1) - kPadding;
  const auto shorter = tokens.narrow(1, 0, length);
  const auto decoder =
      recorded.decoder_tokens.defined() ? recorded.decoder_tokens.narrow(0, 0, 1) : at::Tensor();
  const auto parts = [&](const at::Tensor& ids, const at::Tensor& mask) {
    const auto rows = ids.size(0);
    const auto run = model.run_with_cache(
        {ids,
         {.attention_mask = mask,
          .decoder = {.tokens = decoder.defined() ? decoder.expand({rows, -1}) : decoder}}},
        act::everything, {.output = Output::none});
    return residual_parts(model, run.cache, {.grain = Grain::neuron}).values();  // at each row's last token
  };
  const auto pad = at::full({1, kPadding}, 2, at::kLong), none = at::zeros({1, kPadding}, at::kLong);
  const auto real = at::ones({1, length}, at::kLong);
  const auto alone = parts(shorter, {}), whole = parts(tokens, {});
  for (const bool left : {true, false}) {
    const auto row = left ? at::cat({pad, shorter}, 1) : at::cat({shorter, pad}, 1);
    const auto mask = left ? at::cat({none, real}, 1) : at::cat({real, none}, 1);
    const auto both = parts(at::cat({tokens, row}), at::cat({at::ones_like(mask), mask}));
    EXPECT_LE(largest(both[0] - whole[0]), kTolerance * std::max(1.0, largest(whole)));
    EXPECT_LE(largest(both[1] - alone[0]), kTolerance * std::max(1.0, largest(alone)));
  }
}

TEST_P(StreamOfGolden, PartsOfALogitAddUpToIt) {
  for (const bool processed : {false, true}) {
    const auto [model, input, run] = loaded(GetParam(), processed);
    const auto& config = model.config();
    if (!config.has_unembedding() || config.has_mlm_head()) {
      EXPECT_THROW(direct_logit_attribution(model, run.cache, {.answer = 1}), HookError);
      continue;
    }
    const auto logits = run.cache[act::unembed_out].select(2, 1) - run.cache[act::unembed_out].select(2, 2);
    for (const auto grain : {Grain::layer, Grain::neuron}) {
      const auto parts = direct_logit_attribution(
          model, run.cache, {.answer = 1, .against = 2, .grain = grain, .positions = {}});
      EXPECT_TRUE(adds_up(parts));
      EXPECT_LE(largest(parts.values().sum(1) - logits), kTolerance * std::max(1.0, largest(logits)));
    }
  }
}

TEST_P(StreamOfGolden, SharesOfTheNormAndOfTheCosineAddUp) {
  for (const bool processed : {false, true}) {
    const auto [model, input, run] = loaded(GetParam(), processed);
    const auto& config = model.config();
    const AttributionOptions options{.answer = 1, .against = 2, .grain = Grain::expert, .positions = {}};
    if (!config.has_unembedding() || config.has_mlm_head() || config.final_norm == NormKind::none) {
      EXPECT_THROW(norm_shares(model, run.cache, options), HookError);
      continue;
    }
    const auto shares = norm_shares(model, run.cache, options);
    EXPECT_LE(largest(shares.length.values().sum(1) - 1.0), kTolerance);
    const auto terms = normed_logit(model, run.cache, options).terms;
    const auto cosine = terms.slice("quantity", "cosine").values();
    EXPECT_LE(largest(shares.cosine.values().sum(1) - cosine), kTolerance);
    // And the logit by lengths and a cosine is the run's, before any cap.
    const auto logits = run.cache[act::unembed_out];
    const auto difference = logits.select(-1, 1) - logits.select(-1, 2);  // [row, pos]
    const double size = std::max(1.0, largest(difference));
    EXPECT_LE(largest(terms.slice("quantity", "logit").values() - difference), kTolerance * size);
    EXPECT_LE(largest(terms.slice("quantity", "remainder").values()), kTolerance * size);
  }
}

TEST_P(StreamOfGolden, SourcesAddUpToTheirHeads) {
  const auto [model, input, run] = loaded(GetParam(), false);
  if (!model.config().has_unembedding() || model.config().has_mlm_head()) GTEST_SKIP() << "no linear logits";
  const auto heads =
      direct_logit_attribution(model, run.cache, {.answer = 1, .grain = Grain::head, .positions = {}});
  for (const auto& pattern : {act::pattern, act::cross_pattern}) {
    if (pattern.site == Site::cross_pattern && !model.config().has_encoder()) continue;
    const auto sources =
        source_attribution(model, run.cache, {.answer = 1, .pattern = pattern, .positions = {}});
    for (const auto& label : sources.axis("part").labels) {
      const auto sum = sources.slice("part", label).values().sum(-1);  // [row, pos]
      EXPECT_LE(largest(sum - heads.slice("part", label).values()), kTolerance * std::max(1.0, largest(sum)))
          << label;
    }
  }
}

TEST_P(StreamOfGolden, PartsOfAScoreAddUpToIt) {
  for (const bool processed : {false, true}) {
    const auto [model, input, run] = loaded(GetParam(), processed);
    const auto& config = model.config();
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
      const ScoreAttributionOptions options{
          .scores = act::attn_scores(layer).head(-1), .grain = Grain::head, .queries = {}, .keys = {}};
      if (config.qkv_clip > 0 || !config.attends(layer)) {
        EXPECT_THROW(score_attribution(model, run.cache, options), HookError);
        continue;
      }
      const auto grid = score_attribution(model, run.cache, options);
      EXPECT_LE(largest(grid.slice("query_part", "remainder").values()), kTolerance * largest(grid.values()));
      EXPECT_LE(largest(grid.slice("key_part", "remainder").values()), kTolerance * largest(grid.values()));
      // What the run shows is capped, biased by position and masked.
      if (config.score_soft_cap > 0 || config.alibi() != nullptr || config.relative() != nullptr) continue;
      const auto shown = run.cache[act::attn_scores(layer).head(-1)];  // [row, query, key]
      const auto sums = grid.values().sum({1, 2});
      const auto seen = shown.isinf().logical_not().logical_and(sums.isnan().logical_not());
      EXPECT_GT(seen.sum().item<std::int64_t>(), 0);
      EXPECT_LE(largest((sums - shown).masked_select(seen)),
                kTolerance * std::max(1.0, largest(shown.masked_select(seen))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, StreamOfGolden, testing::ValuesIn(golden_cases()), golden_test_name);

}  // namespace
}  // namespace hooked::residual_golden_test
