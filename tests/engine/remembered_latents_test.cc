// Prefixes and generations of latent attention remember latents if nobody changes keys and values, and
// a run that continues from them computes what one whole run computes.

#include "tests/engine/continued_runs.h"
#include "tests/support/golden_model.h"

namespace hooked::remembered_latents_test {
namespace {

constexpr double kTolerance = 1e-10;
constexpr std::int64_t kColumns = 10;

ModelConfig latent_config() {
  ModelConfig config = small_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.n_ctx = kColumns;
  config.positions = RotaryPositions{.dim = 2, .adjacent_pairs = true, .at_end = true};
  config.latent = Latents{.d_kv = 5, .d_query = 7, .d_shared_key = 2, .d_value = 3, .eps = 1e-3};
  return config;
}

const ConfigKind kKinds[] = {
    {"deepseek_v3", latent_config, [](ModelConfig&) {}},
    {"plain_queries", latent_config, [](ModelConfig& c) { c.latent->d_query = 0; }},
    {"no_shared_part", latent_config,
     [](ModelConfig& c) {
       c.latent->d_shared_key = 0;
       c.positions = LearnedPositions{};
     }},
    {"part_of_the_shared_part_turns", latent_config, [](ModelConfig& c) { c.latent->d_shared_key = 4; }},
    {"one_head", latent_config,
     [](ModelConfig& c) {
       c.n_heads = c.n_kv_heads = 1;
       c.latent->d_kv = 2;
     }},
    {"sinks_and_a_cap", latent_config,
     [](ModelConfig& c) {
       c.attention_sinks = true;
       c.score_soft_cap = 2.0;
     }},
    {"windows", latent_config,
     [](ModelConfig& c) {
       c.window = Window{.size = 3, .layers = {true, false, true}};
     }},
    {"alibi", latent_config,
     [](ModelConfig& c) {
       c.positions = AlibiPositions{.slopes = {0.5, 0.25, 0.125, 0.0625}};
     }},
};

std::int64_t bytes_of_latents(const ModelConfig& c, std::int64_t rows, std::int64_t columns) {
  return c.n_layers * rows * columns * (c.latent->d_kv + c.latent->d_shared_key) * 8;
}

std::int64_t bytes_of_heads(const ModelConfig& c, std::int64_t rows, std::int64_t columns) {
  return c.n_layers * rows * columns * c.n_heads * (c.d_head + c.value_dim(0)) * 8;
}

class RememberedLatents : public testing::TestWithParam<ConfigKind> {
 protected:
  ModelConfig config_ = GetParam().config();
  HookedTransformer model_ = random_model(config_);
  at::Tensor tokens_ = random_tokens(config_, {3, kColumns});

  at::Tensor columns(std::int64_t first, std::int64_t end) const { return tokens_.slice(1, first, end); }
};

INSTANTIATE_TEST_SUITE_P(Kinds, RememberedLatents, testing::ValuesIn(kKinds), named);

TEST_P(RememberedLatents, TakeTheMemoryOfLatents) {
  const Prefix prefix = prefix_of(model_, columns(0, 8));
  EXPECT_EQ(prefix.bytes(), bytes_of_latents(config_, 3, 8));
  EXPECT_LT(prefix.bytes(), bytes_of_heads(config_, 3, 8));
  EXPECT_EQ(prefix.first(3).bytes(), bytes_of_latents(config_, 3, 3));
  // A hook that only looks changes nothing.
  EXPECT_EQ(prefix_of(model_, columns(0, 8), {.capture = act::everything}).bytes(), prefix.bytes());
}

TEST_P(RememberedLatents, ARunBehindThemIsTheEndOfTheWholeRun) {
  const RunResult whole = model_.run_with_cache(tokens_, act::everything);
  for (const std::int64_t first : {1, 4, 9}) {  // few queries after many columns, and vice versa
    const Prefix prefix = prefix_of(model_, columns(0, kColumns - 1)).first(first);
    for (const Selection& capture :
         {Selection(), Selection(act::pattern), Selection(act::k | act::v), Selection(act::everything)}) {
      expect_end_of(whole, model_.run({columns(first, kColumns), {.prefix = prefix}}, {.capture = capture}));
    }
  }
}

TEST_P(RememberedLatents, OfOneRowServeManyAlsoFromColumnsOfTheirOwn) {
  at::Tensor rows = tokens_.clone();
  rows.slice(1, 0, 5).copy_(tokens_.slice(0, 0, 1).slice(1, 0, 5).expand({3, 5}));
  const RunResult whole = model_.run_with_cache(rows, act::z);
  const Prefix prefix = prefix_of(model_, columns(0, 5).narrow(0, 0, 1));
  EXPECT_EQ(prefix.bytes(), bytes_of_latents(config_, 1, 5));
  expect_end_of(whole, model_.run({rows.slice(1, 5), {.prefix = prefix}}, {.capture = act::z}));
  expect_end_of(whole, model_.run({rows.slice(1, 2), {.prefix = prefix.first(2)}}, {.capture = act::z}));
  const std::vector<std::int64_t> first{3, 5, 4};
  const at::Tensor ragged =
      model_.run({rows.slice(1, 3), {.prefix = prefix, .first_columns = first}}).logits();
  for (std::size_t r = 0; r < first.size(); ++r) {
    const auto row = static_cast<std::int64_t>(r);
    EXPECT_LT(relative_difference(ragged[row].slice(0, first[r] - 3), whole.logits()[row].slice(0, first[r])),
              kTolerance);
  }
}

TEST_P(RememberedLatents, GrowByEveryRunThatKeepsThem) {
  const RunResult whole = model_.run_with_cache(tokens_, act::resid_post);
  Prefix prefix = prefix_of(model_, columns(0, 2));
  for (const std::int64_t end : {5, 6, 9}) {  // with many new columns after the past, and with few
    prefix = prefix_of(model_, {columns(prefix.length(), end), {.prefix = prefix}});
    EXPECT_EQ(prefix.bytes(), bytes_of_latents(config_, 3, end));
  }
  expect_end_of(whole, model_.run({columns(9, kColumns), {.prefix = prefix}}, {.capture = act::resid_post}));
}

TEST_P(RememberedLatents, PaddingBesideThemIsNotSeen) {
  at::Tensor mask = at::ones({3, 7}, at::kLong);
  mask[1].narrow(0, 0, 2).zero_();
  mask[2].narrow(0, 3, 4).zero_();
  const Prefix prefix = prefix_of(model_, {columns(0, 7), {.attention_mask = mask}});
  const at::Tensor logits = model_.run({columns(7, kColumns), {.prefix = prefix}}).logits();
  for (std::int64_t r = 0; r < 3; ++r) {
    const at::Tensor row = tokens_[r], real = mask[r].to(at::kBool);
    const at::Tensor alone = at::cat({row.narrow(0, 0, 7).index({real}), row.narrow(0, 7, 3)}).unsqueeze(0);
    const at::Tensor expected = model_.run(alone).logits();
    EXPECT_LT(relative_difference(logits[r], expected[0].slice(0, expected.size(1) - 3)), kTolerance) << r;
  }
}

TEST_P(RememberedLatents, AGenerationStepIsTheEndOfTheWholeRun) {
  const auto steps = model_.generate(columns(0, 4), greedy(6, act::defaults));
  const RunResult whole = model_.run(steps.tokens);
  const at::Tensor log_probs = at::log_softmax(whole.logits(), -1).narrow(1, 3, 6);
  EXPECT_LT((std::get<0>(log_probs.max(-1)) - steps.log_probs).abs().max().item<double>(), kTolerance);
  expect_columns_of_a_run(model_, steps);
}

TEST_P(RememberedLatents, EditsOfKeysAndValuesPersistAndTakeTheirMemory) {
  for (const act::BlockSite site : {act::k, act::v}) {
    const Edit edit = scale(site(1), 0.5);
    const Prefix prefix = prefix_of(model_, columns(0, 6), {.edits = {edit}});
    const std::int64_t of_two_layers = bytes_of_latents(config_, 3, 6) / 3 * 2;
    EXPECT_EQ(prefix.bytes(), of_two_layers + bytes_of_heads(config_, 3, 6) / 3);
    const Edit same = scale(site(1).pos(AxisIndex::Range{.begin = 0, .end = 6}), 0.5);
    const RunResult whole = model_.run(tokens_, {.edits = {same}, .capture = act::everything});
    expect_end_of(whole,
                  model_.run({columns(6, kColumns), {.prefix = prefix}}, {.capture = act::everything}));
    const Prefix longer = prefix_of(model_, {columns(6, 9), {.prefix = prefix}});
    expect_end_of(whole, model_.run({columns(9, kColumns), {.prefix = longer}}));
  }
}

TEST_P(RememberedLatents, BecomeKeysAndValuesWhereTheseAreEdited) {
  const Prefix prefix = prefix_of(model_, columns(0, 6));
  for (const act::BlockSite site : {act::k, act::v}) {
    const AxisIndex::Range late{.begin = 6, .end = {}};
    const RunResult whole =
        model_.run(tokens_, {.edits = {scale(site(1).pos(late), 0.5)}, .capture = act::everything});
    const std::vector<Edit> edits{scale(site(1), 0.5)};
    expect_end_of(whole, model_.run({columns(6, kColumns), {.prefix = prefix}},
                                    {.edits = edits, .capture = act::everything}));
    const Prefix longer = prefix_of(model_, {columns(6, 8), {.prefix = prefix}}, {.edits = edits});
    expect_end_of(whole, model_.run({columns(8, kColumns), {.prefix = longer}}, {.edits = edits}));
    GenerateOptions options = greedy(4);
    options.new_token_edits = edits;
    const auto generated = model_.generate(columns(0, 6), options);
    const at::Tensor expected =
        model_.run(generated.tokens, {.edits = {scale(site(1).pos(late), 0.5)}}).logits().narrow(1, 5, 4);
    EXPECT_LT(
        (std::get<0>(at::log_softmax(expected, -1).max(-1)) - generated.log_probs).abs().max().item<double>(),
        kTolerance);
  }
}

TEST_P(RememberedLatents, EditsOfLatentsPersistInThem) {
  const AxisIndex::Range early{.begin = 0, .end = 6};
  const Prefix prefix = prefix_of(model_, columns(0, 6), {.edits = {scale(act::kv_latent(1), 0.5)}});
  EXPECT_EQ(prefix.bytes(), bytes_of_latents(config_, 3, 6));
  const RunResult whole =
      model_.run(tokens_, {.edits = {scale(act::kv_latent(1).pos(early), 0.5)}, .capture = act::resid_post});
  expect_end_of(whole, model_.run({columns(6, kColumns), {.prefix = prefix}}, {.capture = act::resid_post}));
}

TEST_P(RememberedLatents, GradientsPassThroughWhatTheyAreReadBy) {
  const LogitMetric metric([](const at::Tensor& logits) { return logits.select(1, -1).square().sum(); });
  const Prefix prefix = prefix_of(model_, columns(0, 7));
  for (const Selection& points : {Selection(act::resid_pre | act::z), Selection(act::k | act::v)}) {
    const RunOptions options{.gradients = GradientRequest{.of = points, .metric = metric}};
    const RunResult whole = model_.run(tokens_, options);
    const RunResult rest = model_.run({columns(7, kColumns), {.prefix = prefix}}, options);
    for (const auto& entry : rest.gradients) {
      EXPECT_LT(relative_difference(entry.value(), whole.gradients[entry.name].narrow(1, 7, 3)), kTolerance)
          << entry.name.to_string();
    }
  }
}

TEST(RememberedLatentsRefused, WhereKeysDoNotFollowFromLatentsAlone) {
  const ConfigKind kinds[] = {
      {"normed keys", latent_config, [](ModelConfig& c) { c.qk_norm = QkNorm{}; }},
      {"clipped keys", latent_config, [](ModelConfig& c) { c.qkv_clip = 0.5; }},
      {"every dimension turns", latent_config, [](ModelConfig& c) { c.positions = RotaryPositions{}; }},
      {"the first dimensions turn", latent_config,
       [](ModelConfig& c) { c.positions = RotaryPositions{.dim = 2}; }},
      {"latents are wide", latent_config, [](ModelConfig& c) { c.latent->d_kv = 40; }},
  };
  for (const ConfigKind& kind : kinds) {
    const ModelConfig config = kind.config();
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {2, 9});
    const Prefix prefix = prefix_of(model, tokens.narrow(1, 0, 7));
    EXPECT_EQ(prefix.bytes(), bytes_of_heads(config, 2, 7)) << kind.name;
    EXPECT_LT(relative_difference(model.run({tokens.narrow(1, 7, 2), {.prefix = prefix}}).logits(),
                                  model.run(tokens).logits().narrow(1, 7, 2)),
              kTolerance)
        << kind.name;
  }
}

// float32 has packed matrices and our own kernels; the widths fit blocks.
TEST(RememberedLatentsPacked, AgreeInFloat32AndBfloat16) {
  ModelConfig config = latent_config();
  config.d_model = 64;
  config.d_head = 48;
  config.attn_scale = std::sqrt(48.0);
  config.positions = RotaryPositions{.dim = 16, .at_end = true};
  config.latent = Latents{.d_kv = 32, .d_query = 48, .d_shared_key = 16, .d_value = 32, .eps = 1e-3};
  config.n_ctx = 64;
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    config.dtype = dtype;
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {2, 40});
    const at::Tensor whole = model.run(tokens).logits();
    for (const std::int64_t first : {3, 30, 39}) {
      const Prefix prefix = prefix_of(model, tokens.narrow(1, 0, first));
      const at::Tensor rest = model.run({tokens.slice(1, first), {.prefix = prefix}}).logits();
      EXPECT_LT(relative_difference(rest, whole.slice(1, first)), dtype == at::kFloat ? 2e-5 : 5e-2)
          << toString(dtype) << " from " << first;
    }
  }
}

// For every checkpoint with latents. golden_test compares the run of all tokens with the oracle's.
TEST(RememberedLatentsGolden, ARunAfterThemIsTheRunOfAllTokens) {
  int tried = 0;
  for (const GoldenCase& golden : golden_cases()) {
    if (!golden.family.starts_with("deepseek")) continue;
    SCOPED_TRACE(golden.name);
    const auto model = load_golden(golden);
    const GoldenRun recorded = read_golden(golden);
    if (!model.config().latent_attention() || recorded.attention_mask.defined()) continue;
    ++tried;
    const at::Tensor whole = model.run(recorded.tokens).logits();
    const std::int64_t length = recorded.tokens.size(1);
    for (std::int64_t first = 1; first < length; ++first) {
      const Prefix prefix = prefix_of(model, recorded.tokens.narrow(1, 0, first));
      EXPECT_EQ(prefix.bytes(), bytes_of_latents(model.config(), recorded.tokens.size(0), first));
      const at::Tensor rest = model.run({recorded.tokens.slice(1, first), {.prefix = prefix}}).logits();
      EXPECT_LT(relative_difference(rest, whole.slice(1, first)), 1e-9) << first;
    }
  }
  EXPECT_GT(tried, 5);
}

}  // namespace
}  // namespace hooked::remembered_latents_test
