// What docs/layernorm.md says, statement by statement, about the model's own norm; and the tools.
#include "hooked/analysis/norm_geometry.h"

#include "tests/support/golden_model.h"
#include "tests/support/tiny_model.h"

namespace hooked::norm_geometry_test {
namespace {

constexpr double kTolerance = 1e-12;  // float64, numbers of size 1

double length(const at::Tensor& x) { return x.norm().item<double>(); }
double product_of(const at::Tensor& a, const at::Tensor& b) { return a.dot(b).item<double>(); }

/// A model of LayerNorms without weights, with an epsilon large enough to be seen.
ModelConfig layer_norm_config() {
  auto config = two_layer_config();
  config.norm_folded = true;
  config.eps = 0.01;
  return config;
}

class LayerNormGeometry : public testing::Test {
 protected:
  /// The model's own norm of a vector.
  static at::Tensor norm_of(const at::Tensor& x, ModelConfig config) {
    const auto model = random_model(config);
    const auto run =
        model.run_with_cache(Input::start_at_layer(2, x.view({1, 1, -1})), act::ln_final_normalized);
    return run.cache[act::ln_final_normalized][0][0];
  }
  at::Tensor LN(const at::Tensor& x) const { return norm_of(x, layer_norm_config()); }
  at::Tensor LN(const at::Tensor& x, double eps) const {
    auto config = layer_norm_config();
    config.eps = eps;
    return norm_of(x, config);
  }
  static at::Tensor random(std::uint64_t seed) {
    return at::randn({16}, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble)) + 0.4;
  }
  static at::Tensor c(const at::Tensor& x) { return x - x.mean(); }
  static at::Tensor u(const at::Tensor& x, double eps) { return x / std::sqrt(product_of(x, x) + eps); }

  const double N = 16, eps = 0.01;
  const at::Tensor x = random(3), a = random(4), one = at::ones({16}, at::kDouble);
  const double mean = x.mean().item<double>();
};

TEST_F(LayerNormGeometry, IsTheCentredVectorOnASphere) {
  EXPECT_LT(largest(LN(x) - std::sqrt(N) * u(c(x), N * eps)), kTolerance);
}

// RMSNorm is the same without centring.
TEST_F(LayerNormGeometry, OfRootMeanSquaresIsTheVectorOnASphere) {
  auto config = layer_norm_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  EXPECT_LT(largest(norm_of(x, config) - std::sqrt(N) * u(x, N * eps)), kTolerance);
}

// Without the N before epsilon the length is off by a factor that is near 1; without centring the direction
// is.
TEST_F(LayerNormGeometry, IsNotQuiteWithoutNOrCentring) {
  const double square = product_of(c(x), c(x));
  const double factor = std::sqrt((square + N * eps) / (square + eps));
  EXPECT_GT(factor, 1.001);
  EXPECT_LT(largest(std::sqrt(N) * u(c(x), eps) - factor * LN(x)), kTolerance);
  for (const double under : {eps, N * eps}) {
    const auto uncentred = std::sqrt(N) * u(x, under);
    const double shrinks = std::sqrt((square + N * eps) / (product_of(x, x) + under));
    const auto along_one = std::sqrt(N) * mean / std::sqrt(product_of(x, x) + under) * one;
    EXPECT_GT(largest(along_one), 0.1);
    EXPECT_LT(largest(uncentred - (shrinks * LN(x) + along_one)), kTolerance);
  }
}

TEST_F(LayerNormGeometry, CentringIsAProjectionAndHalfAReflection) {
  const auto centred = x - mean;
  const auto diagonal = one / std::sqrt(N);
  EXPECT_LT(largest(centred - (x - product_of(x, diagonal) * diagonal)), kTolerance);
  EXPECT_LT(largest(centred - (x - product_of(one, x) / N * one)), kTolerance);
  const auto mirrored =
      x - 2 * product_of(x, diagonal) * diagonal;  // in the hyperplane orthogonal to the ones
  EXPECT_LT(largest(centred - (x + mirrored) / 2), kTolerance);
  // The geometric product 1x1 = 2 <1, x> 1 - |1|^2 x is -N times the mirror image.
  const auto sandwich = 2 * product_of(one, x) * one - N * x;
  EXPECT_LT(largest(sandwich + N * mirrored), kTolerance);
  EXPECT_LT(largest(centred - (x / 2 - sandwich / (2 * N))), kTolerance);
  EXPECT_LT(largest(c(centred) - centred), kTolerance);
  EXPECT_NEAR(product_of(centred, one), 0, kTolerance);
}

TEST_F(LayerNormGeometry, TheMeanIsALengthTimesACosine) {
  const double cosine = product_of(x, one) / (length(x) * length(one));
  EXPECT_NEAR(mean, length(x) * cosine / std::sqrt(N), kTolerance);
}

TEST_F(LayerNormGeometry, TheCentredLengthIsPythagoras) {
  const double along = product_of(one, x);
  EXPECT_NEAR(product_of(c(x), c(x)), product_of(x, x) - along * along / N, kTolerance);
  // Of the product x1 = <x, 1> + x^1 the square's scalar part is <x, 1>^2 - |x^1|^2, not its squared length.
  const double outer = N * product_of(x, x) - along * along;  // |x^1|^2
  const double squared_scalar = along * along - outer, squared_length = along * along + outer;
  EXPECT_NEAR(squared_scalar, 2 * along * along - N * product_of(x, x), kTolerance * N);
  EXPECT_NEAR(squared_length, N * product_of(x, x), kTolerance * N);
  EXPECT_NEAR(product_of(c(x), c(x)), product_of(x, x) / 2 - squared_scalar / (2 * N), kTolerance);
  EXPECT_NEAR(product_of(x, x) / 2 - squared_length / (2 * N), 0, kTolerance);
}

TEST_F(LayerNormGeometry, ItsLengthIsNearlyRootNAndNeverMore) {
  const double centred = length(c(x));
  EXPECT_NEAR(length(LN(x)), std::sqrt(N) * centred / std::sqrt(centred * centred + N * eps), kTolerance);
  EXPECT_LT(length(LN(x)), std::sqrt(N));
  EXPECT_NEAR(length(LN(1000 * x)), std::sqrt(N), 1e-6);
  EXPECT_LT(length(LN(x / 1000)), 0.1);  // tiny compared with epsilon
}

TEST_F(LayerNormGeometry, AProductIsLengthsTimesACosine) {
  const auto b = x;
  const double cosine = product_of(a, c(b)) / (length(a) * length(c(b)));
  const double factor = std::sqrt(N) * length(c(b)) / std::sqrt(product_of(c(b), c(b)) + N * eps);
  EXPECT_NEAR(product_of(a, LN(b)), length(a) * cosine * factor, kTolerance);
}

TEST_F(LayerNormGeometry, ScalingTheInputScalesEpsilon) {
  const double t = 3;
  EXPECT_LT(largest(LN(t * x) - LN(x, eps / (t * t))), kTolerance);
  const double square = product_of(c(x), c(x));
  const double factor = std::sqrt((square + N * eps) / (square + N * eps / (t * t)));
  EXPECT_LT(largest(LN(t * x) - factor * LN(x)), kTolerance);
  EXPECT_LT(largest(LN(-x) + LN(x)), kTolerance);
}

TEST_F(LayerNormGeometry, NothingReadsTheOnesDirectionButUnderRMSNorm) {
  const auto tokens = random_row(6, 11, 1);
  for (const auto kind : {NormKind::layer_norm, NormKind::rms_norm}) {
    auto config = two_layer_config();
    config.norm = config.final_norm = kind;
    const auto model = random_model(config);
    const auto logits = model.run(tokens).logits();
    for (const auto& place : {act::resid_pre(0), act::resid_mid(0), act::resid_pre(1), act::resid_post(1)}) {
      const double change =
          largest(model.run(tokens, {.edits = {add(Address(place), 2.0)}}).logits() - logits);
      if (kind == NormKind::layer_norm) {
        EXPECT_LT(change, 1e-11);
      } else {
        EXPECT_GT(change, 1e-2);
      }
    }
  }
}

TEST_F(LayerNormGeometry, TheDirectionsOfASumAddUpButItsLengthsDoNot) {
  const auto b = random(5);
  const double whole = std::sqrt(product_of(c(x + b), c(x + b)) / N + eps);
  EXPECT_LT(largest(LN(x + b) - (c(x) + c(b)) / whole), kTolerance);
  EXPECT_GT(largest(LN(x + b) - (LN(x) + LN(b))), 0.1);
}

class NormTools : public testing::TestWithParam<NormKind> {
 protected:
  NormTools()
      : model_(random_model(config())), run_(model_.run_with_cache(random_row(6, 11, 4).view({2, 3}))) {}
  static ModelConfig config() {
    auto made = two_layer_config();
    made.norm = made.final_norm = GetParam();
    made.unembedding->scale = 0.7;
    made.eps = 0.1;
    return made;
  }

  HookedTransformer model_;
  RunResult run_;
  AttributionOptions options_{
      .answer = Answers::by_row({3, 4}), .against = 5, .grain = Grain::neuron, .positions = {}};
};

TEST_P(NormTools, ALogitIsAProductOfLengthsAndACosine) {
  const auto logit = normed_logit(model_, run_.cache, options_);
  const auto term = [&](const char* name) {
    return logit.terms.slice("quantity", name).values();
  };  // [row, pos]
  for (std::int64_t row = 0; row < 2; ++row) {
    const auto expected = run_.logits()[row].select(1, 3 + row) - run_.logits()[row].select(1, 5);
    EXPECT_LT(largest(term("logit")[row] - expected), kTolerance);
    const auto read = run_.cache[act::ln_final_normalized][row].matmul(logit.probe[row]) + logit.bias[row];
    EXPECT_LT(largest(read - expected), kTolerance);
  }
  EXPECT_LT(
      largest(term("probe length") * term("normed length") * term("cosine") + term("bias") - term("logit")),
      kTolerance);
  EXPECT_LT(largest(term("normed length") - run_.cache[act::ln_final_normalized].norm(2, -1)), kTolerance);
}

// Whatever is done to the end of a run, the product and the remainder add up to its logit.
TEST_P(NormTools, EditsBehindTheStreamAreTheRemainder) {
  const auto tokens = random_row(6, 11, 4).view({2, 3});
  EXPECT_LT(largest(normed_logit(model_, run_.cache, options_).terms.slice("quantity", "remainder").values()),
            kTolerance);
  const auto last = act::unembed_out;
  for (const Edit& edit : {add(act::ln_final_normalized, 0.25), scale(act::ln_final_scale, 1.5),
                           scale(act::unembed_in, 0.5), add(Address(last).row(1), 2.0)}) {
    const auto run = model_.run_with_cache(tokens, act::defaults | last | act::unembed_in, {.edits = {edit}});
    const auto terms = normed_logit(model_, run.cache, options_).terms;
    const auto whole =
        terms.slice("quantity", "logit").values() + terms.slice("quantity", "remainder").values();
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto logits = run.logits()[row];
      EXPECT_LT(largest(whole[row] - (logits.select(1, 3 + row) - logits.select(1, 5))), kTolerance);
    }
    const auto attributed = direct_logit_attribution(model_, run.cache, options_);
    const auto frozen = leave_one_out(model_, run.cache, options_).frozen;
    for (const char* label : {"embed", "head 0.2"}) {
      EXPECT_LT(largest(frozen.slice("part", label).values() + attributed.slice("part", label).values()),
                kTolerance)
          << label;
    }
  }
  // A cache that has only the scale shows the scale.
  const auto some = model_.run_with_cache(tokens, act::resid_post | act::ln_final_scale,
                                          {.edits = {scale(act::ln_final_scale, 1.5)}});
  const auto terms = normed_logit(model_, some.cache, options_).terms;
  const auto whole =
      terms.slice("quantity", "logit").values() + terms.slice("quantity", "remainder").values();
  EXPECT_LT(largest(whole[0] - (some.logits()[0].select(1, 3) - some.logits()[0].select(1, 5))), kTolerance);
}

TEST_P(NormTools, SharesAddUpToTheirTotals) {
  const auto shares = norm_shares(model_, run_.cache, options_);
  EXPECT_LT(largest(shares.length.values().sum(1) - 1.0), kTolerance);
  const auto cosine = normed_logit(model_, run_.cache, options_).terms.slice("quantity", "cosine").values();
  EXPECT_LT(largest(shares.cosine.values().sum(1) - cosine), kTolerance);
}

TEST_P(NormTools, LeavingOneOutIsARunOfWhatIsLeft) {
  const auto effects = leave_one_out(model_, run_.cache, options_);
  const auto parts = residual_parts(model_, run_.cache, {.grain = Grain::neuron, .positions = {}});
  const auto attributed = direct_logit_attribution(model_, run_.cache, options_);
  const auto stream = run_.cache[act::resid_post(1)];
  double apart = 0;
  for (const char* label : {"embed", "head 0.2", "neuron 1.7", "mlp bias 1"}) {
    const auto left =
        model_.run(Input::start_at_layer(2, stream - parts.slice("part", label).values())).logits();
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto change = left[row] - run_.logits()[row];
      const auto expected = change.select(1, 3 + row) - change.select(1, 5);
      const auto exact = effects.exact.slice("part", label).values()[row];
      const auto frozen = effects.frozen.slice("part", label).values()[row];
      EXPECT_LT(largest(exact - expected), kTolerance) << label;
      EXPECT_LT(largest(frozen + attributed.slice("part", label).values()[row]), kTolerance) << label;
      apart = std::max(apart, largest(exact - frozen));
    }
  }
  EXPECT_GT(apart, 1e-2);
}

TEST_P(NormTools, ReadingWithoutTheNormIsMeasured) {
  const auto grid = unnormed_reading(model_, run_.cache, {.positions = {1}});
  EXPECT_THAT(grid.axis("quantity").labels, ElementsAre("cosine", "error", "error with scale"));
  EXPECT_EQ(grid.axis("layer").places[1], Address("blocks.1.ln2.hook_normalized"));
  const auto weights = model_.weights();
  const auto x = run_.cache[act::resid_mid(1)][0][1];
  const auto normed = run_.cache[act::pre(1)][0][1] - weights.b_in(1);  // what the model itself read
  const auto unnormed = x.matmul(weights.W_in(1));
  EXPECT_NEAR(grid.at({0, 1, 0, 0}), product_of(normed, unnormed) / (length(normed) * length(unnormed)),
              kTolerance);
  EXPECT_NEAR(grid.at({0, 1, 1, 0}), length(unnormed - normed) / length(normed), kTolerance);
  const auto scaled = unnormed / run_.cache[act::ln2_scale(1)][0][1];
  EXPECT_NEAR(grid.at({0, 1, 2, 0}), length(scaled - normed) / length(normed), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Norms, NormTools, testing::Values(NormKind::layer_norm, NormKind::rms_norm),
                         [](const auto& info) {
                           return info.param == NormKind::layer_norm ? "layer_norm" : "rms_norm";
                         });

TEST(NormToolsOf, RefuseModelsWithoutTheNorm) {
  auto config = two_layer_config();
  config.norm = config.final_norm = NormKind::none;
  const auto model = random_model(config);
  const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { normed_logit(model, cache, {.answer = 1}); }),
              HasSubstr("no final norm"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { unnormed_reading(model, cache); }), HasSubstr("norms before"));
}

/// Encoder-decoders whose MLPs read through norms of both kinds, gated and not.
class UnnormedReadingOf : public testing::TestWithParam<const char*> {};

TEST_P(UnnormedReadingOf, BothStacksIsThatOfWhatTheirMlpsMade) {
  const auto [model, cache, logits, tokens] = golden_model(golden_case(GetParam()), false);
  const auto& config = model.config();
  for (const Stack stack : {Stack::encoder, Stack::decoder}) {
    const bool encodes = stack == Stack::encoder;
    const auto grid = unnormed_reading(model, cache, {.positions = {1}, .stack = stack});
    const auto layers = encodes ? config.n_encoder_layers() : config.n_layers;
    ASSERT_EQ(grid.values().size(1), layers);
    const auto weights = encodes ? model.weights().encoder() : model.weights();
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      const auto shown = [&](const act::BlockSite& site) { return cache[site.in(stack, layer)][0][1]; };
      EXPECT_EQ(grid.axis("layer").places[static_cast<std::size_t>(layer)],
                (encodes ? act::ln2_normalized : act::ln3_normalized).in(stack, layer));
      // What the model itself read, and what it would have read from the stream.
      auto W = weights.W_in(layer);
      auto normed = shown(act::pre) - weights.b_in(layer);
      if (config.mlp == MlpKind::gated) {
        W = at::cat({weights.W_gate(layer), W}, 1);
        normed = at::cat({shown(act::pre), shown(act::pre_linear) - weights.b_in(layer)});
      }
      const auto unnormed = shown(encodes ? act::resid_mid : act::resid_mid_cross).matmul(W);
      const auto scaled = unnormed / shown(encodes ? act::ln2_scale : act::ln3_scale);
      const double number[] = {product_of(normed, unnormed) / (length(normed) * length(unnormed)),
                               length(unnormed - normed) / length(normed),
                               length(scaled - normed) / length(normed)};
      for (std::int64_t i = 0; i < 3; ++i)
        EXPECT_NEAR(grid.at({0, layer, i, 0}), number[i], 1e-10 * std::max(1.0, number[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TwoStacks, UnnormedReadingOf,
                         testing::Values("t5", "t5_gated", "umt5", "mbart", "pegasus"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hooked::norm_geometry_test
