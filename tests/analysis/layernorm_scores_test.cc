// What docs/layernorm.md says of attention: the norms' form inside scores and heads' outputs, in the
// model's own runs.
#include <ATen/ops/linspace.h>

#include "hooked/analysis/circuits.h"
#include "tests/support/tiny_model.h"

namespace hooked::layernorm_scores_test {
namespace {

constexpr double kTolerance = 1e-10;  // float64, numbers of size 10
constexpr std::int32_t kLayer = 1;
constexpr std::int64_t kHead = 2, kColumns = 6;

/// A model with weights and biases in all norms, queries, keys and values, an epsilon that shows, and a run.
class ScoresThroughNorms : public testing::TestWithParam<NormKind> {
 protected:
  static ModelConfig config() {
    auto config = two_layer_config();
    config.norm = config.final_norm = GetParam();
    config.eps = 0.01;
    return config;
  }
  bool centres() const { return GetParam() == NormKind::layer_norm; }
  /// Of each row of x: centred where the norm centres.
  at::Tensor c(const at::Tensor& x) const { return centres() ? x - x.mean(-1, true) : x; }
  /// v / sqrt(|v|^2 + delta), row by row.
  static at::Tensor u(const at::Tensor& v, double delta) {
    return v / (v.square().sum(-1, true) + delta).sqrt();
  }
  at::Tensor ln_bias(const at::Tensor& like) const {
    return centres() ? weights_.ln1(kLayer).b : like.new_zeros({like.size(-1)});
  }

  const double N = 16, eps = 0.01;
  HookedTransformer model_ = random_model(config());
  WeightView weights_ = model_.weights();
  ActivationCache cache_ = model_.run_with_cache(random_row(kColumns, 11, 1), act::everything).cache;
  at::Tensor x_ = cache_[act::resid_pre(kLayer)][0];  // [pos, d_model]
};

INSTANTIATE_TEST_SUITE_P(Norms, ScoresThroughNorms, testing::Values(NormKind::layer_norm, NormKind::rms_norm),
                         [](const auto& info) {
                           return info.param == NormKind::layer_norm ? "layer_norm" : "rms_norm";
                         });

// <q, k> = N u(c(a)) M u(c(b))^T + sqrt(N) u(c(a)) m_k + sqrt(N) u(c(b)) m_q + n, with the QK circuit M.
TEST_P(ScoresThroughNorms, AreOfOrderNWithASquareRootOfItOnEitherSide) {
  const auto circuit = qk_circuits(model_)[kLayer][kHead];
  const auto unit = u(c(x_), N * eps);
  const auto both = N * at::einsum("qm,mn,kn->qk", {unit, circuit.AB(), unit});
  const auto w = weights_.ln1(kLayer).w.unsqueeze(1);
  const auto W_Q = weights_.W_Q(kLayer)[kHead], W_K = weights_.W_K(kLayer)[kHead];  // [d_model, d_head]
  const auto b = ln_bias(x_);
  const auto q0 = b.matmul(W_Q) + weights_.b_Q(kLayer)[kHead];
  const auto k0 = b.matmul(W_K) + weights_.b_K(kLayer)[kHead];
  const auto of_query = std::sqrt(N) * unit.matmul((w * W_Q).matmul(k0)).unsqueeze(1);  // [query, 1]
  const auto of_key = std::sqrt(N) * unit.matmul((w * W_K).matmul(q0)).unsqueeze(0);    // [1, key]
  const auto expected = (both + of_query + of_key + q0.dot(k0)) / model_.config().attn_scale;
  const auto scores = cache_[act::attn_scores(kLayer)][0][kHead];
  for (std::int64_t query = 0; query < kColumns; ++query) {
    for (std::int64_t key = 0; key <= query; ++key)
      EXPECT_NEAR(scores[query][key].item<double>(), expected[query][key].item<double>(), kTolerance);
  }
  // Without the N nearly nothing is left of it, and with eps instead of N eps either side is too long.
  EXPECT_GT(largest(both) / model_.config().attn_scale, 1.0);
  const auto square = c(x_).square().sum(-1, true);
  const auto too_long = ((square + N * eps) / (square + eps)).sqrt();
  EXPECT_LT(largest(u(c(x_), eps) - too_long * unit), kTolerance);
  EXPECT_GT((too_long - 1).min().item<double>(), 1e-4);
}

// The same by lengths and a cosine in the space of the head.
TEST_P(ScoresThroughNorms, AreLengthsTimesACosineInTheHead) {
  const auto w = weights_.ln1(kLayer).w.unsqueeze(1);
  const auto a = c(x_[5]).matmul(w * weights_.W_Q(kLayer)[kHead]);
  const auto b = c(x_[2]).matmul(w * weights_.W_K(kLayer)[kHead]);
  const auto scale = [&](std::int64_t column) {
    return std::sqrt(N) / std::sqrt(c(x_[column]).square().sum().item<double>() + N * eps);
  };
  const double cosine = a.dot(b).item<double>() / (a.norm() * b.norm()).item<double>();
  const double expected = scale(5) * scale(2) * (a.norm() * b.norm()).item<double>() * cosine;
  const auto unit = u(c(x_), N * eps);
  const auto circuit = qk_circuits(model_)[kLayer][kHead];
  EXPECT_NEAR((N * unit[5].matmul(circuit.AB()).dot(unit[2])).item<double>(), expected, kTolerance);
}

// What a head writes has the square root of N once: its pattern's rows sum to 1.
TEST_P(ScoresThroughNorms, ValuesHaveTheRootOnce) {
  const auto circuit = ov_circuits(model_)[kLayer][kHead];
  const auto pattern = cache_[act::pattern(kLayer)][0][kHead];  // [query, key]
  const auto unit = u(c(x_), N * eps);
  const auto v0 = ln_bias(x_).matmul(weights_.W_V(kLayer)[kHead]) + weights_.b_V(kLayer)[kHead];
  const auto expected = std::sqrt(N) * pattern.matmul(unit).matmul(circuit.AB()) +
                        v0.matmul(weights_.W_O(kLayer)[kHead]).unsqueeze(0);
  EXPECT_LT(largest(cache_[act::result(kLayer)][0].select(1, kHead) - expected), kTolerance);
}

// A model's epsilon is above 0. If rounding loses it next to the variance, it has no effect.
TEST(LayerNormScale, DoublingChangesNothingWithoutEpsilon) {
  auto config = two_layer_config();
  config.norm_folded = true;
  const auto x = at::linspace(-1, 2, 16, at::kDouble).sin().view({1, 1, 16});
  for (const auto kind : {NormKind::layer_norm, NormKind::rms_norm}) {
    config.norm = config.final_norm = kind;
    const auto normed = [&](const at::Tensor& stream, double eps) {
      config.eps = eps;
      return random_model(config)
          .run_with_cache(Input::start_at_layer(2, stream), act::ln_final_normalized)
          .cache[act::ln_final_normalized];
    };
    EXPECT_TRUE(normed(2 * x, 1e-300).equal(normed(x, 1e-300)));
    EXPECT_LT(largest(normed(0.3 * x, 1e-300) - normed(x, 1e-300)), 1e-14);
    EXPECT_GT(largest(normed(2 * x, 0.01) - normed(x, 0.01)), 1e-3);
  }
}

}  // namespace
}  // namespace hooked::layernorm_scores_test
