// Layers of short convolutions: a run that continues from what was remembered, at any column and after
// any padding, computes what one whole run computes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/engine/prefix.h"
#include "tests/engine/small_models.h"

namespace hooked::short_convolution_test {
namespace {

constexpr double kTolerance = 1e-11;
constexpr std::int64_t kColumns = 9;

struct Kind {
  const char* name;
  void (*change)(ModelConfig& config);
};

// Convolutions in layers 0 and 2, attention in layer 1.
ModelConfig config_of(const Kind& kind) {
  ModelConfig config = small_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.positions = RotaryPositions{};
  config.short_conv = ShortConvolution{.kernel = 3, .layers = {true, false, true}};
  kind.change(config);
  return config;
}

constexpr Kind kKinds[] = {
    {"three_tokens", [](ModelConfig&) {}},
    {"its_own_token_alone", [](ModelConfig& c) { c.short_conv->kernel = 1; }},
    {"longer_than_the_text", [](ModelConfig& c) { c.short_conv->kernel = 12; }},
    {"biases", [](ModelConfig& c) { c.short_conv->bias = true; }},
    {"parallel", [](ModelConfig& c) { c.layout = BlockLayout::parallel_two_norms; }},
    {"norms_on_outputs", [](ModelConfig& c) { c.norm_place = NormPlace::both; }},
    {"norms_after_additions",
     [](ModelConfig& c) {
       c.norm_place = NormPlace::post;
       c.final_norm = NormKind::none;
     }},
    {"without_mlps",
     [](ModelConfig& c) {
       c.mlp = MlpKind::none;
       c.d_mlp = 0;
     }},
    {"attention_first_and_last",
     [](ModelConfig& c) {
       c.short_conv->layers = {false, true, false};
     }},
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class ShortConvolutions : public testing::TestWithParam<Kind> {
 protected:
  ModelConfig config_ = config_of(GetParam());
  HookedTransformer model_ = random_model(config_);
  at::Tensor tokens_ = random_tokens(config_, {3, kColumns});
  RunResult whole_ = model_.run(tokens_, {.capture = act::everything});

  at::Tensor columns(std::int64_t first, std::int64_t end) const { return tokens_.slice(1, first, end); }
  Prefix prefix(const Input& input) const {
    return model_.run(input, {.output = Output::none, .keep_prefix = true}).prefix.value();
  }
  // The layers with a convolution.
  std::vector<std::int32_t> convolving() const {
    std::vector<std::int32_t> layers;
    for (std::int32_t l = 0; l < config_.n_layers; ++l) {
      if (config_.convolves(l)) layers.push_back(l);
    }
    return layers;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, ShortConvolutions, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

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

TEST_P(ShortConvolutions, OneRowsPrefixServesMany) {
  const at::Tensor same =
      at::cat({tokens_.slice(0, 0, 1).slice(1, 0, 5).expand({3, 5}), columns(5, kColumns)}, 1);
  const Prefix one = prefix(Input(tokens_.slice(0, 0, 1).slice(1, 0, 5)));
  const at::Tensor logits = model_.run(Input(columns(5, kColumns), {.prefix = one})).logits();
  EXPECT_LT(relative_difference(logits, model_.run(same).logits().slice(1, 5)), kTolerance);
}

TEST_P(ShortConvolutions, PaddingIsSkippedWhereverItStands) {
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
  // After a prefix as well.
  const auto part = [&](std::int64_t first, std::int64_t end) {
    return Input(columns(first, end), {.attention_mask = mask.slice(1, first, end)});
  };
  Input rest = part(5, kColumns);
  rest.prefix = prefix(part(0, 5));
  EXPECT_LT(relative_difference(model_.run(rest).logits()[0], logits[0].slice(0, 5)), kTolerance);
  EXPECT_LT(relative_difference(model_.run(rest).logits()[1], logits[1].slice(0, 5)), kTolerance);
  EXPECT_LT(relative_difference(model_.run(rest).logits()[2].slice(0, 0, 3), logits[2].slice(0, 5, 8)),
            kTolerance);
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

TEST_P(ShortConvolutions, GenerationsAreWhatWholeRunsCompute) {
  const auto made = model_.generate(columns(0, 4), {.max_new_tokens = 5,
                                                    .sampling = {.greedy = true},
                                                    .stop = {.tokens = std::vector<std::int64_t>()},
                                                    .capture = act::defaults});
  const RunResult again = model_.run_with_cache(made.tokens);
  for (const auto& entry : made.cache) {
    if (row(entry.name.site).axes.find(Axis::query)) continue;  // of other keys at every step
    EXPECT_LT(relative_difference(entry.value(), again.cache[entry.name]), kTolerance)
        << entry.name.to_string();
  }
  // Rows of different lengths.
  const at::Tensor mask = at::ones({3, 4}, at::kLong);
  mask[0].slice(0, 0, 3).zero_();
  mask[1].slice(0, 0, 1).zero_();
  const GenerateOptions options{
      .max_new_tokens = 5, .sampling = {.greedy = true}, .stop = {.tokens = std::vector<std::int64_t>()}};
  const auto padded = model_.generate(Input(columns(0, 4), {.attention_mask = mask}), options);
  for (std::int64_t r = 0; r < 3; ++r) {
    const at::Tensor alone = tokens_[r].slice(0, 0, 4).index({mask[r].to(at::kBool)}).unsqueeze(0);
    const auto row_alone = model_.generate(alone, options);
    EXPECT_TRUE(at::equal(row_alone.tokens[0].slice(0, -5), padded.tokens[r].slice(0, -5))) << r;
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
  const std::int32_t l = convolving().front();
  const auto metric = [](const at::Tensor& logits) { return logits.select(1, kColumns - 1).sin().sum(); };
  const at::Tensor mask = at::ones({3, kColumns}, at::kLong);
  mask[1].slice(0, 0, 2).zero_();
  for (const bool padded : {false, true}) {
    const Input input = padded ? Input(tokens_, {.attention_mask = mask}) : Input(tokens_);
    const at::Tensor gradient =
        model_.run(input, {.gradients = GradientRequest{.of = act::conv_x(l), .metric = metric}})
            .gradients[act::conv_x(l)];
    const at::Tensor direction = random_tokens(config_, gradient.sizes(), 5).to(at::kDouble) / 11.0;
    const auto at_step = [&](double step) {
      return metric(model_.run(input, {.edits = {add(act::conv_x(l), direction * step)}}).logits())
          .item<double>();
    };
    const double expected = (at_step(1e-5) - at_step(-1e-5)) / 2e-5;
    EXPECT_NEAR((gradient * direction).sum().item<double>(), expected, 1e-6 * (1 + std::abs(expected)))
        << padded;
  }
}

TEST(ShortConvolutionModels, NameWhatTheirLayersDoNotHave) {
  const HookedTransformer model = random_model(config_of(kKinds[0]));
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
}  // namespace hooked::short_convolution_test
