// Layers of gated delta nets and of short convolutions: a run that continues from what they remember, after
// any padding, computes what one whole run computes, and what would need something else is refused.

#include "tests/engine/continued_runs.h"

namespace hooked::token_mixers_test {
namespace {

constexpr double kTolerance = 1e-11;
constexpr std::int64_t kColumns = 9;

// Layers 0 and 2 mix tokens in their way, layer 1 attends.
ModelConfig mixing_config() {
  ModelConfig config = small_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.positions = RotaryPositions{};
  return config;
}

ModelConfig recurring_config() {
  ModelConfig config = mixing_config();
  config.gated_heads = true;
  config.delta_net = DeltaNet{
      .n_key_heads = 2, .n_heads = 4, .d_key = 3, .d_value = 5, .kernel = 3, .layers = {true, false, true}};
  return config;
}

ModelConfig convolving_config() {
  ModelConfig config = mixing_config();
  config.short_conv = ShortConvolution{.kernel = 3, .layers = {true, false, true}};
  return config;
}

const ConfigKind kDeltaNets[] = {
    {"shared_keys", recurring_config, [](ModelConfig&) {}},
    {"heads_of_their_own", recurring_config, [](ModelConfig& c) { c.delta_net->n_key_heads = 4; }},
    {"longer_filter_than_text", recurring_config, [](ModelConfig& c) { c.delta_net->kernel = 12; }},
    {"parallel", recurring_config, [](ModelConfig& c) { c.layout = BlockLayout::parallel_two_norms; }},
    {"beside_convolutions", recurring_config,
     [](ModelConfig& c) {
       c.delta_net->layers = {true, false, false};
       c.short_conv = ShortConvolution{.kernel = 3, .layers = {false, false, true}};
     }},
};

const ConfigKind kConvolutions[] = {
    {"three_tokens", convolving_config, [](ModelConfig&) {}},
    {"its_own_token_alone", convolving_config, [](ModelConfig& c) { c.short_conv->kernel = 1; }},
    {"longer_than_the_text", convolving_config, [](ModelConfig& c) { c.short_conv->kernel = 12; }},
    {"biases", convolving_config, [](ModelConfig& c) { c.short_conv->bias = true; }},
    {"parallel", convolving_config, [](ModelConfig& c) { c.layout = BlockLayout::parallel_two_norms; }},
    {"norms_on_outputs", convolving_config, [](ModelConfig& c) { c.norm_place = NormPlace::both; }},
    {"norms_after_additions", convolving_config,
     [](ModelConfig& c) {
       c.norm_place = NormPlace::post;
       c.final_norm = NormKind::none;
     }},
    {"without_mlps", convolving_config,
     [](ModelConfig& c) {
       c.mlp = MlpKind::none;
       c.d_mlp = 0;
     }},
    {"attention_first_and_last", convolving_config,
     [](ModelConfig& c) {
       c.short_conv->layers = {false, true, false};
     }},
};

class TokenMixers : public testing::TestWithParam<ConfigKind> {
 protected:
  ModelConfig config_ = GetParam().config();
  HookedTransformer model_ = random_model(config_);
  at::Tensor tokens_ = random_tokens(config_, {3, kColumns});
  RunResult whole_ = model_.run(tokens_, {.capture = act::everything});

  at::Tensor columns(std::int64_t first, std::int64_t end) const { return tokens_.slice(1, first, end); }
  Prefix prefix(const Input& input) const { return prefix_of(model_, input); }

  /// Checks the gradient at an activation with a finite difference.
  void expect_gradient(const Input& input, const Address& at) const {
    const auto metric = [](const at::Tensor& logits) { return logits.select(1, kColumns - 1).sin().sum(); };
    const at::Tensor gradient =
        model_.run(input, {.gradients = GradientRequest{.of = at, .metric = metric}}).gradients[at];
    const at::Tensor direction = random_tokens(config_, gradient.sizes(), 5).to(at::kDouble) / 11.0;
    const auto at_step = [&](double step) {
      return metric(model_.run(input, {.edits = {add(at, direction * step)}}).logits()).item<double>();
    };
    const double expected = (at_step(1e-6) - at_step(-1e-6)) / 2e-6;
    EXPECT_NEAR((gradient * direction).sum().item<double>(), expected, 1e-6 * (1 + std::abs(expected)))
        << at.to_string();
  }
};

INSTANTIATE_TEST_SUITE_P(DeltaNets, TokenMixers, testing::ValuesIn(kDeltaNets), named);
INSTANTIATE_TEST_SUITE_P(Convolutions, TokenMixers, testing::ValuesIn(kConvolutions), named);

TEST_P(TokenMixers, OneRowsPrefixServesMany) {
  const at::Tensor same =
      at::cat({tokens_.slice(0, 0, 1).slice(1, 0, 5).expand({3, 5}), columns(5, kColumns)}, 1);
  const Prefix one = prefix(Input(tokens_.slice(0, 0, 1).slice(1, 0, 5)));
  const at::Tensor logits = model_.run(Input(columns(5, kColumns), {.prefix = one})).logits();
  EXPECT_LT(relative_difference(logits, model_.run(same).logits().slice(1, 5)), kTolerance);
}

TEST_P(TokenMixers, PaddingIsSkippedWhereverItStands) {
  // Row 0 is whole, row 1 is padded on the left, row 2 in the middle and at its end.
  const at::Tensor mask = at::ones({3, kColumns}, at::kLong);
  mask[1].slice(0, 0, 2).zero_();
  mask[2].slice(0, 2, 4).zero_();
  mask[2][8].zero_();
  const at::Tensor logits = model_.run(Input(tokens_, {.attention_mask = mask})).logits();
  for (std::int64_t row = 0; row < 3; ++row) {
    const at::Tensor real = mask[row].to(at::kBool);
    const at::Tensor alone = model_.run(tokens_[row].index({real}).unsqueeze(0)).logits();
    EXPECT_LT(relative_difference(logits[row].index({real}).unsqueeze(0), alone), kTolerance) << row;
  }
  const auto part = [&](std::int64_t first, std::int64_t end) {
    return Input(columns(first, end), {.attention_mask = mask.slice(1, first, end)});
  };
  for (const std::int64_t first : {3, 5}) {
    Input rest = part(first, kColumns);
    rest.prefix = prefix(part(0, first));
    const at::Tensor after = model_.run(rest).logits();
    for (std::int64_t row = 0; row < 3; ++row) {
      const at::Tensor real = mask[row].slice(0, first).to(at::kBool);
      EXPECT_LT(relative_difference(after[row].index({real}), logits[row].slice(0, first).index({real})),
                kTolerance)
          << row << " from " << first;
    }
  }
}

TEST_P(TokenMixers, GenerationsAreWhatWholeRunsCompute) {
  const GenerateOptions options = greedy(5, act::defaults);
  expect_columns_of_a_run(model_, model_.generate(columns(0, 4), options), kTolerance);
  const at::Tensor mask = at::ones({3, 4}, at::kLong);
  mask[0].slice(0, 0, 3).zero_();
  mask[1].slice(0, 0, 1).zero_();
  const auto padded = model_.generate(Input(columns(0, 4), {.attention_mask = mask}), options);
  for (std::int64_t r = 0; r < 3; ++r) {
    const at::Tensor alone = tokens_[r].slice(0, 0, 4).index({mask[r].to(at::kBool)}).unsqueeze(0);
    EXPECT_TRUE(
        at::equal(model_.generate(alone, options).tokens[0].slice(0, -5), padded.tokens[r].slice(0, -5)))
        << r;
  }
}

class DeltaNets : public TokenMixers {};

INSTANTIATE_TEST_SUITE_P(Kinds, DeltaNets, testing::ValuesIn(kDeltaNets), named);

TEST_P(DeltaNets, PrefixesAreContinuedAtTheirEnd) {
  for (std::int64_t first = 1; first < kColumns; ++first) {
    const Prefix before = prefix(columns(0, first));
    const RunResult rest =
        model_.run(Input(columns(first, kColumns), {.prefix = before}), {.capture = act::linear_out(0)});
    EXPECT_LT(relative_difference(rest.logits(), whole_.logits().slice(1, first)), kTolerance) << first;
    EXPECT_LT(
        relative_difference(rest.cache[act::linear_out(0)], whole_.cache[act::linear_out(0)].slice(1, first)),
        kTolerance)
        << first;
    if (first > 1) {
      EXPECT_THROW(before.first(first - 1), ShapeError);
    }
    EXPECT_EQ(before.first(first).length(), first);
  }
  // In several pieces.
  Input more(columns(4, 6), {.prefix = prefix(columns(0, 4))});
  const RunResult last = model_.run(Input(columns(6, kColumns), {.prefix = prefix(more)}));
  EXPECT_LT(relative_difference(last.logits(), whole_.logits().slice(1, 6)), kTolerance);
}

TEST_P(DeltaNets, GradientsAreThoseOfFiniteDifferences) {
  for (const act::BlockSite& site :
       {act::linear_qkv, act::linear_k, act::linear_beta, act::linear_decay, act::linear_state}) {
    expect_gradient(tokens_, site(0));
  }
}

TEST_P(DeltaNets, StatesAreThoseOfShorterRuns) {
  EXPECT_LT(relative_difference(model_.run(tokens_).logits(), whole_.logits()), kTolerance);
  const at::Tensor states = whole_.cache[act::linear_state(0)];
  const DeltaNet& net = *config_.delta_net;
  ASSERT_EQ(states.sizes(), (std::vector<std::int64_t>{3, kColumns, net.n_heads, net.d_key, net.d_value}));
  for (std::int64_t end = 1; end < kColumns; ++end) {
    const Prefix before = prefix(columns(0, end));
    const RunResult next =
        model_.run(Input(columns(end, end + 1), {.prefix = before}), {.capture = act::linear_state(0)});
    EXPECT_LT(relative_difference(next.cache[act::linear_state(0)], states.slice(1, end, end + 1)),
              kTolerance)
        << end;
  }
  EXPECT_FALSE(model_.run_with_cache(tokens_).cache.contains(act::linear_state(0).name()));
}

TEST_P(DeltaNets, AnEditOfAStateReachesItsQueryAndWhatGoesOnFromTheLast) {
  const std::int64_t middle = 4;
  const RunResult cut =
      model_.run(tokens_, {.edits = {zero(act::linear_state(0).pos(middle))}, .capture = act::linear_out(0)});
  const at::Tensor out = cut.cache[act::linear_out(0)], before = whole_.cache[act::linear_out(0)];
  EXPECT_EQ(out.select(1, middle).abs().max().item<double>(), 0.0);
  EXPECT_LT(relative_difference(out.slice(1, middle + 1), before.slice(1, middle + 1)), kTolerance);
  // A continuation from a state of zeros holds only the next token: it reads beta v <k, q> / sqrt(d_key).
  const Prefix empty = prefix_of(model_, columns(0, middle), {.edits = {zero(act::linear_state(0).pos(-1))}});
  const RunResult next =
      model_.run(Input(columns(middle, middle + 1), {.prefix = empty}), {.capture = act::everything});
  const auto of_length_one = [](const at::Tensor& x) {
    return x / x.square().sum(-1, true).add(1e-6).sqrt();
  };
  const auto by_head = [&](const act::BlockSite& site) {
    const DeltaNet& net = *config_.delta_net;
    return of_length_one(next.cache[site(0)]).repeat_interleave(net.n_heads / net.n_key_heads, 2);
  };
  const at::Tensor match = (by_head(act::linear_q) * by_head(act::linear_k)).sum(-1, true) /
                           std::sqrt(static_cast<double>(config_.delta_net->d_key));
  EXPECT_LT(relative_difference(
                next.cache[act::linear_out(0)],
                match * next.cache[act::linear_beta(0)].unsqueeze(-1) * next.cache[act::linear_v(0)]),
            kTolerance);
}

TEST_P(DeltaNets, RefuseRowsWithColumnsOfTheirOwn) {
  const InputDetails details{.prefix = prefix(tokens_.slice(0, 0, 1)), .first_columns = {4, 1, 7}};
  EXPECT_THROW(model_.run(Input(columns(1, kColumns), details)), HookError);
}

TEST(DeltaNetModels, ManyTokensAreComputedInChunks) {
  ModelConfig config = recurring_config();
  config.n_ctx = 200;
  const HookedTransformer model = random_model(config);
  const at::Tensor tokens = random_tokens(config, {2, 150});
  const at::Tensor whole = model.run(tokens).logits();
  // Column by column is the recurrence as it is written.
  std::optional<Prefix> before;
  for (std::int64_t column = 0; column < 150; column += 1) {
    InputDetails details;
    details.prefix = before;
    const RunResult run =
        model.run(Input(tokens.slice(1, column, column + 1), details), {.keep_prefix = true});
    EXPECT_LT(relative_difference(run.logits().select(1, 0), whole.select(1, column)), 1e-10) << column;
    before = run.prefix;
  }
}

class ShortConvolutions : public TokenMixers {
 protected:
  // The layers with a convolution.
  std::vector<std::int32_t> convolving() const {
    std::vector<std::int32_t> layers;
    for (std::int32_t l = 0; l < config_.n_layers; ++l) {
      if (config_.convolves(l)) layers.push_back(l);
    }
    return layers;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, ShortConvolutions, testing::ValuesIn(kConvolutions), named);

TEST_P(ShortConvolutions, PrefixesAreContinuedWhereverTheyAreCut) {
  const Prefix all = prefix(columns(0, 7));
  for (std::int64_t first = 1; first <= 7; ++first) {
    const RunResult rest = model_.run(Input(columns(first, kColumns), {.prefix = all.first(first)}),
                                      {.capture = act::everything});
    EXPECT_LT(relative_difference(rest.logits(), whole_.logits().slice(1, first)), kTolerance) << first;
    for (const std::int32_t l : convolving()) {
      EXPECT_LT(
          relative_difference(rest.cache[act::convolved(l)], whole_.cache[act::convolved(l)].slice(1, first)),
          kTolerance)
          << first;
    }
  }
}

TEST_P(ShortConvolutions, RowsBeginWhereTheyLike) {
  const std::vector<std::int64_t> first{4, 1, 7};
  at::Tensor rows = tokens_.slice(0, 0, 1).expand({3, kColumns}).clone();
  for (std::int64_t r = 0; r < 3; ++r) {
    rows[r]
        .slice(0, first[static_cast<std::size_t>(r)])
        .copy_(tokens_[r].slice(0, first[static_cast<std::size_t>(r)]));
  }
  const InputDetails details{.prefix = prefix(Input(tokens_.slice(0, 0, 1))), .first_columns = first};
  const at::Tensor logits = model_.run(Input(rows.slice(1, 1), details)).logits();
  const at::Tensor expected = model_.run(rows).logits().slice(1, 1);
  for (std::int64_t r = 0; r < 3; ++r) {
    const std::int64_t before = first[static_cast<std::size_t>(r)] - 1;
    EXPECT_LT(relative_difference(logits[r].slice(0, before), expected[r].slice(0, before)), kTolerance) << r;
  }
}

TEST_P(ShortConvolutions, EditsReachTheTokensThatTheFilterSees) {
  const std::int32_t l = convolving().front();
  const RunResult edited = model_.run(
      tokens_, {.edits = {set(act::conv_x(l).pos(4), 0.0)}, .capture = act::convolved(l) | act::conv_bx(l)});
  const at::Tensor changed =
      edited.cache[act::convolved(l)].ne(whole_.cache[act::convolved(l)]).any(2).any(0);  // [pos]
  for (std::int64_t p = 0; p < kColumns; ++p) {
    EXPECT_EQ(changed[p].item<bool>(), p >= 4 && p < 4 + config_.short_conv->kernel) << p;
  }
  EXPECT_EQ(edited.cache[act::conv_bx(l)].select(1, 4).count_nonzero().item<std::int64_t>(), 0);
  // What is patched with itself stays.
  const RunResult same = model_.run(tokens_, {.edits = {replace(act::conv_gated(l), whole_.cache)}});
  EXPECT_LT(relative_difference(same.logits(), whole_.logits()), kTolerance);
}

TEST_P(ShortConvolutions, GradientsAreThoseOfFiniteDifferences) {
  const Address x = act::conv_x(convolving().front());
  const at::Tensor mask = at::ones({3, kColumns}, at::kLong);
  mask[1].slice(0, 0, 2).zero_();
  expect_gradient(tokens_, x);
  expect_gradient({tokens_, {.attention_mask = mask}}, x);
}

TEST(ShortConvolutionModels, NameWhatTheirLayersDoNotHave) {
  const HookedTransformer model = random_model(convolving_config());
  EXPECT_THROW(model.run(random_tokens(model.config(), {1, 4}), {.capture = act::pattern(0)}), HookError);
  EXPECT_THROW(model.weights().W_Q(0), ConfigError);
  EXPECT_NO_THROW(model.weights().W_Q(1));
  const RunResult run =
      model.run(random_tokens(model.config(), {1, 4}), {.capture = act::pattern | act::convolved});
  EXPECT_FALSE(run.cache.contains(act::pattern(0).name()));
  EXPECT_TRUE(run.cache.contains(act::pattern(1).name()));
  EXPECT_TRUE(run.cache.contains(act::convolved(2).name()));
}

}  // namespace
}  // namespace hooked::token_mixers_test
