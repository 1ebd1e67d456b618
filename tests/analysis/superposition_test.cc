#include "hooked/analysis/superposition.h"

#include <numbers>

#include "tests/support/test.h"

namespace hooked::superposition_test {
namespace {

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble));
}

/// Unit vectors of a regular polygon.
at::Tensor polygon(int corners) {
  std::vector<double> numbers;
  for (int i = 0; i < corners; ++i) {
    const double angle = 2 * std::numbers::pi * i / corners;
    numbers.insert(numbers.end(), {std::cos(angle), std::sin(angle)});
  }
  return at::tensor(numbers, at::kDouble).view({corners, 2});
}

// The paper's table of arrangements: an antipodal pair 1/2, a triangle 2/3, a pentagon 2/5 dimensions each.
TEST(Superposition, DimensionsAreThoseOfThePapersArrangements) {
  const auto pair = at::tensor({1.0, 0.0, -1.0, 0.0}, at::kDouble).view({2, 2});
  EXPECT_NEAR(superposition(pair).dimensions[0].item<double>(), 1.0 / 2, 1e-12);
  EXPECT_NEAR(superposition(polygon(3)).dimensions[1].item<double>(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(superposition(polygon(5)).dimensions[4].item<double>(), 2.0 / 5, 1e-12);
  const auto alone = superposition(at::eye(4, at::kDouble));
  EXPECT_DOUBLE_EQ(alone.dimensions.min().item<double>(), 1.0);
  EXPECT_DOUBLE_EQ(alone.largest_cosine, 0.0);
  EXPECT_DOUBLE_EQ(alone.welch_bound, 0.0);
  EXPECT_DOUBLE_EQ(superposition(polygon(5)).dimensions_per_feature, 2.0 / 5);
  // d + 1 vectors of a simplex meet the bound: cosines -1/d.
  const auto simplex = superposition(polygon(3));
  EXPECT_NEAR(simplex.largest_cosine, simplex.welch_bound, 1e-12);
  EXPECT_NEAR(simplex.welch_bound, 0.5, 1e-12);
  EXPECT_NEAR(simplex.mean_squared_cosine, 0.25, 1e-12);
}

TEST(Superposition, OfRandomDirectionsIsThatByHand) {
  const auto w = drawn({40, 12}, 3);
  const auto found = superposition(w);
  const auto cosines = pairwise_cosines(w);
  double largest = 0, squares = 0;
  for (int i = 0; i < 40; ++i) {
    double interference = 0;
    for (int j = 0; j < 40; ++j) {
      if (i == j) continue;
      const double product = w[i].dot(w[j]).item<double>() / w[i].norm().item<double>();
      interference += product * product;
      const double cosine = product / w[j].norm().item<double>();
      EXPECT_NEAR(cosines[i][j].item<double>(), cosine, 1e-12);
      largest = std::max(largest, std::abs(cosine));
      squares += cosine * cosine;
    }
    const double own = w[i].dot(w[i]).item<double>();
    EXPECT_NEAR(found.interference[i].item<double>(), interference, 1e-10);
    EXPECT_NEAR(found.dimensions[i].item<double>(), own / (own + interference), 1e-12);
    const auto nearest = found.nearest[i].item<std::int64_t>();
    EXPECT_NE(nearest, i);
    EXPECT_NEAR(found.nearest_cosine[i].item<double>(), cosines[i][nearest].item<double>(), 1e-12);
  }
  EXPECT_NEAR(found.largest_cosine, largest, 1e-12);
  EXPECT_NEAR(found.mean_squared_cosine, squares / (40 * 39), 1e-12);
  // Bounds that hold for every arrangement.
  EXPECT_GE(found.largest_cosine, found.welch_bound);
  EXPECT_GE(found.mean_squared_cosine, found.welch_bound * found.welch_bound);
  EXPECT_LE(found.dimensions.sum().item<double>(), 12.0 + 1e-9);
  const auto flat = drawn({30, 12}, 4).matmul(drawn({12, 5}, 5)).matmul(drawn({5, 12}, 6));
  EXPECT_LE(superposition(flat).dimensions.sum().item<double>(), 5.0 + 1e-9);
}

TEST(Superposition, ExpectedInterferenceIsThatOfDraws) {
  const auto w = drawn({9, 4}, 7);
  const FeatureActivity activity{.sparsity = 0.7};
  const auto expected = expected_interference(w, activity);
  constexpr std::int64_t kDraws = 400000;
  auto generator = at::detail::createCPUGenerator(9);
  const auto uniform = [&] { return at::rand({kDraws, 9}, generator, at::TensorOptions(at::kDouble)); };
  const auto values = uniform() * uniform().ge(0.7);
  const auto units = w / w.norm(2, {1}, true);
  const auto read =
      at::matmul(at::matmul(values, w), units.t()) - values * w.norm(2, {1});  // [draw, feature]
  const auto deviation = (expected.variance / kDraws).sqrt();
  EXPECT_LT(((read.mean(0) - expected.mean) / deviation).abs().max().item<double>(), 5.0);
  EXPECT_LT((read.square().mean(0) / expected.square - 1).abs().max().item<double>(), 0.02);
  EXPECT_NEAR(expected.any[0].item<double>(), 1 - std::pow(0.7, 8), 1e-12);
  // Always active with one value: no variance; never active: nothing.
  EXPECT_EQ(expected_interference(w, {.sparsity = 0, .mean = 1, .mean_square = 1})
                .variance.abs()
                .max()
                .item<double>(),
            0.0);
  EXPECT_EQ(expected_interference(w, {.sparsity = 1}).square.abs().max().item<double>(), 0.0);
}

TEST(Superposition, RefusesWhatIsNoSetOfDirections) {
  EXPECT_THAT(text_thrown_by<ShapeError>([] { superposition(drawn({4}, 1)); }), HasSubstr("[feature, d]"));
  EXPECT_THAT(text_thrown_by<ShapeError>([] {
                superposition(at::cat({drawn({2, 3}, 1), at::zeros({1, 3}, at::kDouble)}));
              }),
              HasSubstr("direction 2 is zero"));
  EXPECT_THROW(welch_bound(0, 3), ShapeError);
  EXPECT_THROW(expected_interference(drawn({2, 3}, 1), {.sparsity = 1.5}), ShapeError);
  EXPECT_THROW(expected_interference(drawn({2, 3}, 1), {.mean = 1, .mean_square = 0.5}), ShapeError);
  EXPECT_TRUE(std::isnan(superposition(drawn({1, 3}, 1)).largest_cosine));
}

}  // namespace
}  // namespace hooked::superposition_test
