// The analyses on an encoder-decoder: they read the decoder unless the encoder is asked for by name.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rsqrt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/two_layer_model.h"
#include "tests/support/thrown_by.h"

namespace hooked::analysis_two_stacks_test {
namespace {

constexpr double kFloat64Tolerance = 1e-10;

ModelConfig two_stack_config() {
  ModelConfig config = two_layer_config();
  config.n_layers = 3;
  config.encoder = Encoder{.n_layers = 2, .decoder_start_token = 1};
  config.norm = config.final_norm = NormKind::rms_norm;
  config.positions = RelativePositions{.buckets = 8, .max_distance = 10};
  config.attn_scale = 1.0;
  config.unembedding->in_scale = 0.25;
  return config;
}

class TwoStacks : public testing::Test {
 protected:
  // Every number is random: no bias is zero and no norm weight is one.
  static HookedTransformer make() {
    StateDict weights = HookedTransformer::create(two_stack_config(), {.seed = 3}).state_dict();
    auto generator = at::detail::createCPUGenerator(5);
    for (auto& [name, weight] : weights)
      weight = weight + at::rand(weight.sizes(), generator, weight.options()) - 0.4;
    return HookedTransformer::from_state_dict(weights, two_stack_config(),
                                              {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  }

  static Input input(std::uint64_t seed) {
    return {random_row(6, 11, seed), {.decoder = {.tokens = random_row(4, 11, seed + 10)}}};
  }

  HookedTransformer model_ = make();
  RunResult run_ = model_.run_with_cache(input(1), act::everything);
};

TEST_F(TwoStacks, TheLensReadsTheDecodersStream) {
  const auto rows = logit_lens(model_, run_.cache, {.positions = {2}, .top_k = 11}).top;
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows.front().name.to_string(), "decoder.0.hook_resid_pre");
  EXPECT_EQ(rows.back().name.to_string(), "decoder.2.hook_resid_post");
  const StateDict weights = model_.state_dict();
  for (const LogitLensRow& row : rows) {
    const at::Tensor x = run_.cache[Address(row.name).row(0).pos(2)];  // [d_model]
    const at::Tensor normed =
        x * at::rsqrt((x * x).mean() + model_.config().eps) * weights.at("decoder_final_ln.w");
    const at::Tensor logits =
        at::matmul(normed * 0.25, weights.at("unembed.W_U")) + weights.at("unembed.b_U");
    for (const auto& prediction : row.predictions)
      EXPECT_NEAR(prediction.logit, logits[prediction.token].item<double>(), kFloat64Tolerance);
  }
  for (const auto& prediction : rows.back().predictions)
    EXPECT_NEAR(prediction.logit, run_.logits()[0][2][prediction.token].item<double>(), kFloat64Tolerance);
}

TEST_F(TwoStacks, AttributionHasRowsOfCrossAttentionAndAddsUpToTheLogit) {
  for (const Grain grain : {Grain::layer, Grain::head}) {
    for (const std::int64_t position : {-1, 1}) {
      const auto grid = direct_logit_attribution(
          model_, run_.cache, {.answer = 3, .against = 5, .grain = grain, .positions = {position}});
      EXPECT_NEAR(grid.slice("part", "remainder").at({0, 0}), 0, kFloat64Tolerance);
      const double sum = grid.values().sum().item<double>();
      const at::Tensor logits = run_.logits().select(1, position)[0];
      EXPECT_NEAR(sum, (logits[3] - logits[5]).item<double>(), kFloat64Tolerance);
    }
  }
}

TEST_F(TwoStacks, AttributionNamesItsParts) {
  const auto parts = [&](Grain grain) {
    return direct_logit_attribution(model_, run_.cache, {.answer = 3, .grain = grain}).axis("part").labels;
  };
  EXPECT_THAT(parts(Grain::layer),
              testing::ElementsAre("embed", "attn 0", "cross attn 0", "mlp 0", "attn 1", "cross attn 1",
                                   "mlp 1", "attn 2", "cross attn 2", "mlp 2", "remainder", "final norm bias",
                                   "unembed bias"));
  const auto by_head = parts(Grain::head);
  EXPECT_EQ(by_head[1], "head 0.0");
  EXPECT_EQ(by_head[5], "attn bias 0");
  EXPECT_EQ(by_head[6], "cross head 0.0");
  EXPECT_EQ(by_head[10], "cross attn bias 0");
}

TEST_F(TwoStacks, AttributionByHeadIsThatOfTheOutputMatrix) {
  const StateDict weights = model_.state_dict();
  const auto by_head = direct_logit_attribution(model_, run_.cache, {.answer = 3, .grain = Grain::head});
  const at::Tensor x = run_.cache[act::resid_post(-1).row(0).pos(-1)];
  const at::Tensor reading = at::rsqrt((x * x).mean() + model_.config().eps) *
                             weights.at("decoder_final_ln.w") * weights.at("unembed.W_U").select(1, 3) * 0.25;
  const at::Tensor z = run_.cache[act::cross_z(1).row(0).pos(-1).head(2)];  // [d_head]
  const double expected =
      at::matmul(at::matmul(z, weights.at("decoder.1.cross_attn.W_O")[2]), reading).item<double>();
  const auto part = by_head.slice("part", "cross head 1.2");
  EXPECT_NEAR(part.at({0, 0}), expected, kFloat64Tolerance);
  EXPECT_THAT(by_head.axis("part").places,
              testing::Contains(Address("decoder.1.cross_attn.hook_result[head=2]")));
}

// The mean of the attention that each query gives to the keys before it which `wanted` says, by plain loops.
template <typename F>
double mean_attention(const at::Tensor& pattern, std::int64_t head, F&& wanted) {
  double sum = 0;
  std::int64_t queries = 0;
  for (std::int64_t q = 0; q < pattern.size(2); ++q) {
    bool any = false;
    for (std::int64_t k = 0; k < pattern.size(3); ++k) {
      if (!wanted(q, k)) continue;
      any = true;
      sum += pattern[0][head][q][k].item<double>();
    }
    queries += any ? 1 : 0;
  }
  return sum / static_cast<double>(queries);
}

TEST_F(TwoStacks, DetectorsScoreTheDecodersHeadsOrTheEncodersByName) {
  const at::Tensor read = at::cat({random_row(3, 11, 7), random_row(3, 11, 7)}, 1);  // said twice
  const Input said{read, {.decoder = {.tokens = read}}};
  const ActivationCache cache = model_.run_with_cache(said, act::pattern).cache;
  const auto token = [&](std::int64_t place) { return read[0][place].item<std::int64_t>(); };
  const auto previous = [](std::int64_t q, std::int64_t k) { return k == q - 1; };
  const auto same = [&](std::int64_t q, std::int64_t k) { return k < q && token(k) == token(q); };
  const auto followed = [&](std::int64_t q, std::int64_t k) {
    return k > 0 && k <= q && k - 1 < q && token(k - 1) == token(q);
  };
  for (const Stack stack : {Stack::none, Stack::encoder}) {
    const Grid by_previous = previous_token_scores(cache, {.stack = stack});
    const Grid by_same = duplicate_token_scores(cache, read, {.stack = stack});
    const Grid by_followed = induction_scores(cache, read, {.stack = stack});
    const std::int32_t layers = stack == Stack::encoder ? 2 : 3;
    ASSERT_EQ(by_previous.values().size(0), layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      const at::Tensor pattern = cache[act::pattern.in(stack, layer)];
      for (std::int64_t head = 0; head < 4; ++head) {
        const auto at_cell = [&](const Grid& grid) { return grid.values()[layer][head].item<double>(); };
        EXPECT_NEAR(at_cell(by_previous), mean_attention(pattern, head, previous), 1e-12);
        EXPECT_NEAR(at_cell(by_same), mean_attention(pattern, head, same), 1e-12);
        EXPECT_NEAR(at_cell(by_followed), mean_attention(pattern, head, followed), 1e-12);
      }
    }
  }
}

struct TwoStackSweep {
  const char* name;
  act::BlockSite site;
  std::vector<Axis> over;
  Stack stack = Stack::none;
};

class SweepOfTwoStacks : public TwoStacks, public testing::WithParamInterface<TwoStackSweep> {};

TEST_P(SweepOfTwoStacks, EqualsOneFullRunPerPlace) {
  const auto& [name, site, over, stack] = GetParam();
  const Input corrupted = input(2);
  const SweepOptions options{.site = site,
                             .over = {over.begin(), over.end()},
                             .from = run_.cache,
                             .into = corrupted,
                             .metric = logit_difference(3, 7),
                             .tokens_per_run = 5,
                             .stack = stack};
  const auto grid = sweep(model_, options);
  double largest_effect = 0;
  const double unpatched = options.metric.all().front().score(model_, corrupted)[0].item<double>();
  for (const auto& cell : grid.largest(100000)) {
    Address address = site.in(stack, static_cast<std::int32_t>(cell.index[0]));
    for (std::size_t i = 1; i < over.size(); ++i) address = address.at(over[i], cell.index[i]);
    const auto patched =
        options.metric.all().front().score(model_, corrupted, {.edits = {replace(address, run_.cache)}});
    EXPECT_NEAR(cell.value, patched[0].item<double>(), kFloat64Tolerance) << address.to_string();
    largest_effect = std::max(largest_effect, std::abs(cell.value - unpatched));
  }
  EXPECT_EQ(static_cast<std::int64_t>(grid.largest(100000).size()), grid.values().numel());
  EXPECT_EQ(grid.values().size(0), stack == Stack::encoder ? 2 : 3);
  EXPECT_GT(largest_effect, 1e-3) << "no patch changed anything";
}

INSTANTIATE_TEST_SUITE_P(
    Sites, SweepOfTwoStacks,
    testing::Values(TwoStackSweep{"resid_pre", act::resid_pre, {Axis::layer, Axis::pos}},
                    TwoStackSweep{"z", act::z, {Axis::layer, Axis::head}},
                    TwoStackSweep{"cross_z", act::cross_z, {Axis::layer, Axis::pos, Axis::head}},
                    TwoStackSweep{"cross_v", act::cross_v, {Axis::layer, Axis::pos}},
                    TwoStackSweep{"cross_pattern", act::cross_pattern, {Axis::layer, Axis::head, Axis::key}},
                    TwoStackSweep{"mlp_out", act::mlp_out, {Axis::layer}},
                    TwoStackSweep{"encoder", act::resid_post, {Axis::layer, Axis::pos}, Stack::encoder}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hooked::analysis_two_stacks_test
