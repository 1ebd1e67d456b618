// Layers of gated delta nets: a run that continues from a state computes what one whole run computes, padding
// leaves the state alone, and what would need another state is refused.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/engine/prefix.h"
#include "tests/engine/small_models.h"

namespace hooked::delta_net_test {
namespace {

constexpr double kTolerance = 1e-11;
constexpr std::int64_t kColumns = 9;

struct Kind {
  const char* name;
  void (*change)(ModelConfig& config);
};

// A delta net in layers 0 and 2, attention with gates in layer 1.
ModelConfig config_of(const Kind& kind) {
  ModelConfig config = small_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.positions = RotaryPositions{};
  config.gated_heads = true;
  config.delta_net = DeltaNet{
      .n_key_heads = 2, .n_heads = 4, .d_key = 3, .d_value = 5, .kernel = 3, .layers = {true, false, true}};
  kind.change(config);
  return config;
}

constexpr Kind kKinds[] = {
    {"shared_keys", [](ModelConfig&) {}},
    {"heads_of_their_own", [](ModelConfig& c) { c.delta_net->n_key_heads = 4; }},
    {"longer_filter_than_text", [](ModelConfig& c) { c.delta_net->kernel = 12; }},
    {"parallel", [](ModelConfig& c) { c.layout = BlockLayout::parallel_two_norms; }},
    {"beside_convolutions",
     [](ModelConfig& c) {
       c.delta_net->layers = {true, false, false};
       c.short_conv = ShortConvolution{.kernel = 3, .layers = {false, false, true}};
     }},
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class DeltaNets : public testing::TestWithParam<Kind> {
 protected:
  ModelConfig config_ = config_of(GetParam());
  HookedTransformer model_ = random_model(config_);
  at::Tensor tokens_ = random_tokens(config_, {3, kColumns});
  RunResult whole_ = model_.run(tokens_, {.capture = act::everything});

  at::Tensor columns(std::int64_t first, std::int64_t end) const { return tokens_.slice(1, first, end); }
  Prefix prefix(const Input& input) const {
    return model_.run(input, {.output = Output::none, .keep_prefix = true}).prefix.value();
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, DeltaNets, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

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
  // In several pieces, and one row for all.
  Input more(columns(4, 6), {.prefix = prefix(columns(0, 4))});
  const RunResult last = model_.run(Input(columns(6, kColumns), {.prefix = prefix(more)}));
  EXPECT_LT(relative_difference(last.logits(), whole_.logits().slice(1, 6)), kTolerance);
  const at::Tensor row = tokens_.slice(0, 0, 1).slice(1, 0, 5);
  const at::Tensor same = at::cat({row.expand({3, 5}), columns(5, kColumns)}, 1);
  const at::Tensor shared = model_.run(Input(columns(5, kColumns), {.prefix = prefix(row)})).logits();
  EXPECT_LT(relative_difference(shared, model_.run(same).logits().slice(1, 5)), kTolerance);
}

TEST_P(DeltaNets, PaddingIsSkippedWhereverItStands) {
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

TEST_P(DeltaNets, GenerationsAreWhatWholeRunsCompute) {
  const GenerateOptions options{.max_new_tokens = 5,
                                .sampling = {.greedy = true},
                                .stop = {.tokens = std::vector<std::int64_t>()},
                                .capture = act::defaults};
  const auto made = model_.generate(columns(0, 4), options);
  const RunResult again = model_.run_with_cache(made.tokens);
  for (const auto& entry : made.cache) {
    if (row(entry.name.site).axes.find(Axis::query)) continue;  // of other keys at every step
    EXPECT_LT(relative_difference(entry.value(), again.cache[entry.name]), kTolerance)
        << entry.name.to_string();
  }
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

TEST_P(DeltaNets, GradientsAreThoseOfFiniteDifferences) {
  const auto metric = [](const at::Tensor& logits) { return logits.select(1, kColumns - 1).sin().sum(); };
  for (const act::BlockSite& site :
       {act::linear_qkv, act::linear_k, act::linear_beta, act::linear_decay, act::linear_state}) {
    const at::Tensor gradient =
        model_.run(tokens_, {.gradients = GradientRequest{.of = site(0), .metric = metric}})
            .gradients[site(0)];
    const at::Tensor direction = random_tokens(config_, gradient.sizes(), 5).to(at::kDouble) / 11.0;
    const auto at_step = [&](double step) {
      return metric(model_.run(tokens_, {.edits = {add(site(0), direction * step)}}).logits()).item<double>();
    };
    const double expected = (at_step(1e-6) - at_step(-1e-6)) / 2e-6;
    EXPECT_NEAR((gradient * direction).sum().item<double>(), expected, 1e-6 * (1 + std::abs(expected)))
        << row(site.site).path;
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
  const RunOptions emptied{
      .edits = {zero(act::linear_state(0).pos(-1))}, .output = Output::none, .keep_prefix = true};
  const Prefix empty = model_.run(columns(0, middle), emptied).prefix.value();
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
  ModelConfig config = config_of(kKinds[0]);
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

}  // namespace
}  // namespace hooked::delta_net_test
