// The analyses on an encoder-decoder: they read the decoder unless the encoder is asked for by name.
#include <ATen/ops/rsqrt.h>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/sweep.h"
#include "tests/analysis/head_scores_by_hand.h"
#include "tests/support/tiny_model.h"

namespace hooked::analysis_two_stacks_test {
namespace {

constexpr double kFloat64Tolerance = 1e-10;

class TwoStacks : public testing::Test {
 protected:
  // Every number is random: no bias is zero and no norm weight is one.
  static HookedTransformer make() {
    ModelConfig config = two_stack_config(two_layer_config());
    config.n_layers = 3;
    config.n_kv_heads = config.n_heads;
    config.unembedding->in_scale = 0.25;
    return random_model(config);
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
              ElementsAre("embed", "attn 0", "cross attn 0", "mlp 0", "attn 1", "cross attn 1", "mlp 1",
                          "attn 2", "cross attn 2", "mlp 2", "remainder", "final norm bias", "unembed bias"));
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

TEST_F(TwoStacks, HeadsOfTheDecoderOfTheEncoderAndBetweenThem) {
  const at::Tensor read = at::cat({random_row(3, 11, 7), random_row(3, 11, 7)}, 1);  // said twice
  const at::Tensor source = at::cat({read, random_row(2, 11, 9)}, 1);
  const at::Tensor mask = at::ones({1, 8}, at::kLong);
  mask[0][0] = 0;
  const Input said{source, {.attention_mask = mask, .decoder = {.tokens = read}}};
  const ActivationCache cache = model_.run_with_cache(said, act::pattern | act::cross_pattern).cache;
  for (const Stack stack : {Stack::none, Stack::encoder}) {
    const bool encodes = stack == Stack::encoder;
    const at::Tensor& ids = encodes ? source : read;
    const auto id = [&](std::int64_t place) { return ids[0][place].item<std::int64_t>(); };
    const std::int64_t first = encodes ? 1 : 0, end = encodes ? 8 : 6;
    std::vector<std::int64_t> reals;
    for (std::int64_t column = first; column < end; ++column) reals.push_back(column);
    const std::int32_t layers = encodes ? 2 : 3;
    const auto scored = [&](HeadScore score) {
      return head_scores(cache, score, {.tokens = ids, .stack = stack});
    };
    const Grid previous = scored(HeadScore::previous_token), same = scored(HeadScore::duplicate_token);
    ASSERT_EQ(previous.values().size(0), layers);
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t head = 0; head < 4; ++head) {
        const AttentionByHand seen{.pattern = cache[act::pattern.in(stack, layer)][0][head], .reals = reals};
        EXPECT_NEAR(previous.at({layer, head}),
                    seen.score(HeadMeasure::share, [](auto q, auto k) { return k == q - 1; }), 1e-12);
        EXPECT_NEAR(same.at({layer, head}),
                    seen.score(HeadMeasure::share, [&](auto q, auto k) { return k < q && id(k) == id(q); }),
                    1e-12);
      }
    }
  }
  // What the decoder's heads see of the encoder: 6 queries, 8 keys; the first key is padding.
  const HeadScoreOptions cross{.site = act::cross_pattern};
  const Grid first = head_scores(cache, HeadScore::first_token, cross);
  const Grid entropy = head_scores(cache, HeadScore::entropy, cross);
  const at::Tensor own = at::rand({6, 8}, at::kDouble);
  const Grid by_pattern = head_scores(cache, own, {.measure = HeadMeasure::mul, .site = act::cross_pattern});
  ASSERT_EQ(first.values().sizes(), at::IntArrayRef({3, 4}));
  EXPECT_EQ(first.axis("layer").places[1]->to_string(), "decoder.1.cross_attn.hook_pattern");
  for (std::int32_t layer = 0; layer < 3; ++layer) {
    for (std::int64_t head = 0; head < 4; ++head) {
      const at::Tensor pattern = cache[act::cross_pattern(layer)][0][head].narrow(1, 1, 7);
      EXPECT_NEAR(first.at({layer, head}), pattern.select(1, 0).mean().item<double>(), 1e-12);
      EXPECT_NEAR(entropy.at({layer, head}), -(pattern * pattern.log()).sum(1).mean().item<double>(), 1e-12);
      EXPECT_NEAR(by_pattern.at({layer, head}), (pattern * own.narrow(1, 1, 7)).sum().item<double>() / 6,
                  1e-12);
    }
  }
  for (const HeadScoreRow& row : head_score_rows()) {
    if (row.crosses) continue;
    EXPECT_THAT(text_thrown_by<HookError>([&] { head_scores(cache, row.score, cross); }),
                AllOf(HasSubstr(std::string(row.name)), HasSubstr("two texts")));
  }
  EXPECT_THROW(
      head_scores(cache, HeadScore::first_token, {.exclude_current_token = true, .site = act::cross_pattern}),
      HookError);
}

/// Cross-attention's queries are padded as the decoder's rows are, its keys as the encoder's.
TEST_F(TwoStacks, MeansOfCrossAttentionLeaveOutPaddingOfBothTexts) {
  const at::Tensor tokens = at::cat({random_row(6, 11, 1), random_row(6, 11, 2)});
  const at::Tensor decoder = at::cat({random_row(4, 11, 11), random_row(4, 11, 12)});
  at::Tensor mask = at::ones({2, 6}, at::kLong), decoder_mask = at::ones({2, 4}, at::kLong);
  mask[1].narrow(0, 4, 2).zero_();
  decoder_mask[1].narrow(0, 3, 1).zero_();
  const Input data(tokens,
                   {.attention_mask = mask, .decoder = {.tokens = decoder, .attention_mask = decoder_mask}});
  const Input alone(tokens.narrow(0, 1, 1).narrow(1, 0, 4),
                    {.decoder = {.tokens = decoder.narrow(0, 1, 1).narrow(1, 0, 3)}});
  const Input first(tokens.narrow(0, 0, 1), {.decoder = {.tokens = decoder.narrow(0, 0, 1)}});
  const Input into = input(3);
  for (const act::BlockSite& site : {act::cross_pattern, act::cross_attn_scores}) {
    const Grid grid =
        sweep(model_,
              {.site = site,
               .over = {Axis::layer, Axis::head},
               .from = PatchSource::mean(model_.run_with_cache(data, act::everything).cache, MeanOver::rows),
               .into = into,
               .metric = logit(3)});
    for (std::int32_t layer = 0; layer < 3; ++layer) {
      at::Tensor mean =
          model_.run_with_cache(first, act::everything).cache[site(layer)][0].clone();  // [head, query, key]
      const at::Tensor other = model_.run_with_cache(alone, act::everything).cache[site(layer)][0];
      at::Tensor both = mean.narrow(1, 0, 3).narrow(2, 0, 4);
      both.copy_((both + other) / 2);
      const Address place = Address(site(layer)).head(1);
      EXPECT_NEAR(grid.at({layer, 1}),
                  logit(3).score(model_, into, {.edits = {set(place, mean[1].unsqueeze(0))}}).item<double>(),
                  1e-10);
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
  const double unpatched = options.metric.front().score(model_, corrupted)[0].item<double>();
  for (const auto& cell : grid.largest(100000)) {
    Address address = site.in(stack, static_cast<std::int32_t>(cell.index[0]));
    for (std::size_t i = 1; i < over.size(); ++i) address = address.at(over[i], cell.index[i]);
    const auto patched =
        options.metric.front().score(model_, corrupted, {.edits = {replace(address, run_.cache)}});
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
                    TwoStackSweep{"pattern", act::pattern, {Axis::layer, Axis::head, Axis::query}},
                    TwoStackSweep{"cross_z", act::cross_z, {Axis::layer, Axis::pos, Axis::head}},
                    TwoStackSweep{"cross_v", act::cross_v, {Axis::layer, Axis::pos}},
                    TwoStackSweep{"cross_pattern", act::cross_pattern, {Axis::layer, Axis::head, Axis::key}},
                    TwoStackSweep{"mlp_out", act::mlp_out, {Axis::layer}},
                    TwoStackSweep{"encoder", act::resid_post, {Axis::layer, Axis::pos}, Stack::encoder}),
    named);

}  // namespace
}  // namespace hooked::analysis_two_stacks_test
