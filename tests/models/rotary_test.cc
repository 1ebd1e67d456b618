#include "models/sequence/rotary.h"

#include <numbers>

#include "hooked/core/kernel_set.h"
#include "tests/models/random_graph.h"

namespace hooked::rotary_test {
namespace {

ModelConfig rotary_config() {
  ModelConfig config = graph_config();
  config.d_head = 8;
  config.positions = RotaryPositions{};
  config.rotary()->base = 500.0;
  return config;
}

std::vector<double> numbers(const RotaryFrequencies& frequencies) {
  const at::Tensor& x = frequencies.values;
  return {x.const_data_ptr<double>(), x.const_data_ptr<double>() + x.numel()};
}

double plain(double base, double pair, double dim) { return std::pow(base, -2.0 * pair / dim); }

TEST(RotaryFrequencies, AreAGeometricSeries) {
  const auto f = numbers(rotary_frequencies(rotary_config(), false));
  ASSERT_EQ(f.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(f[i], plain(500.0, i, 8.0));
}

TEST(RotaryFrequencies, PartialRotaryCountsItsOwnDimensions) {
  ModelConfig c = rotary_config();
  c.rotary()->dim = 4;
  const auto f = numbers(rotary_frequencies(c, false));
  ASSERT_EQ(f.size(), 2u);
  EXPECT_DOUBLE_EQ(f[1], plain(500.0, 1, 4.0));
}

TEST(RotaryFrequencies, LinearScalingDividesAll) {
  ModelConfig c = rotary_config();
  c.rotary()->scaling = LinearScaling{.factor = 4.0};
  const auto f = numbers(rotary_frequencies(c, false));
  for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(f[i], plain(500.0, i, 8.0) / 4.0);
}

TEST(RotaryFrequencies, Llama3KeepsShortStretchesLongAndInterpolatesBetween) {
  ModelConfig c = rotary_config();
  c.rotary()->scaling =
      Llama3Scaling{.factor = 8.0, .low_freq_factor = 1.0, .high_freq_factor = 4.0, .original_n_ctx = 64.0};
  const auto f = numbers(rotary_frequencies(c, false));
  const double two_pi = 2.0 * std::numbers::pi;
  bool kept = false, stretched = false, between = false;
  for (int i = 0; i < 4; ++i) {
    const double old = plain(500.0, i, 8.0), wavelength = two_pi / old;
    if (wavelength < 64.0 / 4.0) {
      EXPECT_DOUBLE_EQ(f[i], old);
      kept = true;
    } else if (wavelength > 64.0 / 1.0) {
      EXPECT_DOUBLE_EQ(f[i], old / 8.0);
      stretched = true;
    } else {
      const double smooth = (64.0 / wavelength - 1.0) / (4.0 - 1.0);
      EXPECT_NEAR(f[i], (1.0 - smooth) * old / 8.0 + smooth * old, 1e-15);
      between = true;
    }
  }
  EXPECT_TRUE(kept && stretched && between) << "the test's numbers miss a region";
}

TEST(RotaryFrequencies, YarnRampsBetweenKeptAndStretched) {
  ModelConfig c = rotary_config();
  c.d_head = 16;
  for (const bool truncate : {true, false}) {
    c.rotary()->scaling = YarnScaling{
        .factor = 4.0, .original_n_ctx = 200.0, .beta_fast = 8.0, .beta_slow = 1.0, .truncate = truncate};
    const auto f = numbers(rotary_frequencies(c, false));
    // The dimension that rotates `beta` times over the original context.
    const auto dimension = [](double beta) {
      return 16.0 * std::log(200.0 / (beta * 2.0 * std::numbers::pi)) / (2.0 * std::log(500.0));
    };
    const double low = truncate ? std::floor(dimension(8.0)) : dimension(8.0);
    const double high = truncate ? std::ceil(dimension(1.0)) : dimension(1.0);
    for (int i = 0; i < 8; ++i) {
      const double ramp = std::min(1.0, std::max(0.0, (i - low) / (high - low)));
      const double old = plain(500.0, i, 16.0);
      EXPECT_NEAR(f[i], old * (1.0 - ramp) + old / 4.0 * ramp, 1e-15) << i;
    }
  }
}

// nanochat's rotary, in a config with a scaling: wavelengths have no sign.
TEST(RotaryFrequencies, TheOtherWayRoundTheyAreTheNegativesUnderEveryScaling) {
  ModelConfig c = rotary_config();
  const RopeScaling scalings[] = {
      NoScaling{},
      LinearScaling{.factor = 4.0},
      Llama3Scaling{.factor = 8.0, .low_freq_factor = 1.0, .high_freq_factor = 4.0, .original_n_ctx = 64.0},
      YarnScaling{.factor = 4.0, .original_n_ctx = 200.0},
      DynamicScaling{.factor = 2.0, .original_n_ctx = 8.0},
      LongropeScaling{.short_factors = {1.0, 1.5, 2.0, 3.0}, .long_factors = {2.0, 3.0, 4.0, 5.0}}};
  for (const RopeScaling& scaling : scalings) {
    for (const bool windowed : {false, true}) {
      c.rotary()->scaling = scaling;
      c.rotary()->local_base = windowed ? std::optional(20.0) : std::nullopt;
      c.rotary()->reversed = false;
      const at::Tensor forwards = rotary_frequencies(c, windowed).values;
      c.rotary()->reversed = true;
      EXPECT_TRUE(at::equal(rotary_frequencies(c, windowed).values, -forwards)) << scaling.index();
    }
  }
}

TEST(RotaryFrequencies, WindowedLayersTakeTheLocalBaseUnscaled) {
  ModelConfig c = rotary_config();
  c.rotary()->scaling = LinearScaling{.factor = 4.0};
  EXPECT_EQ(numbers(rotary_frequencies(c, true)), numbers(rotary_frequencies(c, false)));
  c.rotary()->local_base = 100.0;
  const auto local = numbers(rotary_frequencies(c, true)), full = numbers(rotary_frequencies(c, false));
  for (int i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(local[i], plain(100.0, i, 8.0));
    EXPECT_DOUBLE_EQ(full[i], plain(500.0, i, 8.0) / 4.0);
  }
}

class Rotate : public testing::TestWithParam<bool> {
 protected:
  Rotate() { config_.rotary()->adjacent_pairs = GetParam(); }

  at::Tensor rotated(const at::Tensor& x, const at::Tensor& positions) const {
    const RotaryFrequencies f = rotary_frequencies(config_, false);
    return rotate(x, rotary_angles(f, positions, config_.dtype), *config_.rotary());
  }
  /// The two dimensions of pair i.
  std::pair<std::int64_t, std::int64_t> pair(std::int64_t i) const {
    const std::int64_t half = config_.rotary_dim(0) / 2;
    return GetParam() ? std::pair(2 * i, 2 * i + 1) : std::pair(i, i + half);
  }

  ModelConfig config_ = rotary_config();
  at::Tensor x_ = at::rand({1, 5, 3, 8}, at::detail::createCPUGenerator(2), at::TensorOptions(at::kDouble));
  at::Tensor positions_ = at::arange(5, at::kLong).unsqueeze(0);
};

INSTANTIATE_TEST_SUITE_P(Pairs, Rotate, testing::Bool(),
                         [](const auto& info) { return info.param ? "adjacent" : "halves"; });

TEST_P(Rotate, TurnsEachPairByItsAngle) {
  for (const std::int64_t dim : {8, 4}) {
    config_.rotary()->dim = dim;
    const at::Tensor y = rotated(x_, positions_);
    ASSERT_EQ(y.sizes(), x_.sizes());
    for (std::int64_t p = 0; p < 5; ++p) {
      for (std::int64_t i = 0; i < dim / 2; ++i) {
        const auto [a, b] = pair(i);
        const double angle =
            static_cast<double>(p) * plain(500.0, static_cast<double>(i), static_cast<double>(dim));
        const double xa = x_[0][p][1][a].item<double>(), xb = x_[0][p][1][b].item<double>();
        EXPECT_NEAR(y[0][p][1][a].item<double>(), xa * std::cos(angle) - xb * std::sin(angle), 1e-14);
        EXPECT_NEAR(y[0][p][1][b].item<double>(), xa * std::sin(angle) + xb * std::cos(angle), 1e-14);
      }
    }
    EXPECT_TRUE(at::equal(y.narrow(-1, dim, 8 - dim), x_.narrow(-1, dim, 8 - dim)))
        << "turned too many dimensions";
  }
}

TEST_P(Rotate, ProductsDependOnDistanceOnly) {
  const at::Tensor k =
      at::rand({1, 5, 3, 8}, at::detail::createCPUGenerator(9), at::TensorOptions(at::kDouble));
  const at::Tensor here = (rotated(x_, positions_) * rotated(k, positions_ + 2)).sum(-1);
  const at::Tensor there = (rotated(x_, positions_ + 100) * rotated(k, positions_ + 102)).sum(-1);
  EXPECT_LT(relative_difference(there, here), 1e-12);
}

TEST(RotaryAngles, YarnMultipliesCosinesAndSines) {
  RotaryFrequencies f = rotary_frequencies(rotary_config(), false);
  const at::Tensor positions = at::arange(5, at::kLong).unsqueeze(0);
  const RotaryAngles plain_angles = rotary_angles(f, positions, at::kDouble);
  f.scaling = YarnScaling{.factor = 2.0, .attention_factor = 1.25};
  const RotaryAngles scaled = rotary_angles(f, positions, at::kDouble);
  EXPECT_LT(relative_difference(scaled.cosine, plain_angles.cosine * 1.25), 1e-15);
  EXPECT_LT(relative_difference(scaled.sine, plain_angles.sine * 1.25), 1e-15);
}

// Half-precision angles at large positions would be wrong by radians: they are computed in float32.
TEST(RotaryAngles, HalfPrecisionModelsComputeAnglesInFloat32) {
  ModelConfig c = rotary_config();
  const at::Tensor positions = at::arange(990, 1000, at::kLong).unsqueeze(0);
  const RotaryAngles precise = rotary_angles(rotary_frequencies(c, false), positions, at::kDouble);
  c.dtype = at::kBFloat16;
  const RotaryFrequencies f = rotary_frequencies(c, false);
  EXPECT_EQ(f.values.scalar_type(), at::kFloat);
  const RotaryAngles half = rotary_angles(f, positions, at::kBFloat16);
  EXPECT_EQ(half.cosine.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_difference(half.cosine, precise.cosine), 0.01);
}

// Two rows of one batch, one within the trained context of 4 tokens and one beyond it.
const at::Tensor& short_and_long_row() {
  static const at::Tensor positions =
      at::tensor({0, 1, 2, 3, 3, 3, 0, 1, 2, 3, 4, 5}, at::kLong).view({2, 6});
  return positions;
}

TEST(RotaryAngles, LongropeChoosesItsFactorsByEachRowsLength) {
  ModelConfig c = rotary_config();
  const LongropeScaling scaling{.short_factors = {1.0, 1.0, 2.0, 2.0},
                                .long_factors = {3.0, 4.0, 5.0, 6.0},
                                .original_n_ctx = 4.0,
                                .attention_factor = 1.5};
  c.rotary()->scaling = scaling;
  const RotaryAngles angles = rotary_angles(rotary_frequencies(c, false), short_and_long_row(), at::kDouble);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(angles.cosine[0][3][0][i].item<double>(),
                1.5 * std::cos(3.0 * plain(500.0, i, 8.0) / scaling.short_factors[i]), 1e-14);
    EXPECT_NEAR(angles.cosine[1][3][0][i].item<double>(),
                1.5 * std::cos(3.0 * plain(500.0, i, 8.0) / scaling.long_factors[i]), 1e-14);
  }
}

TEST(RotaryAngles, DynamicScalingGrowsTheBaseWithEachRowsLength) {
  ModelConfig c = rotary_config();
  c.rotary()->scaling = DynamicScaling{.factor = 2.0, .original_n_ctx = 4.0};
  const RotaryAngles angles = rotary_angles(rotary_frequencies(c, false), short_and_long_row(), at::kDouble);
  const double grown = 500.0 * std::pow(2.0 * 6.0 / 4.0 - 1.0, 8.0 / 6.0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(angles.sine[0][3][0][i].item<double>(), std::sin(3.0 * plain(500.0, i, 8.0)), 1e-14);
    EXPECT_NEAR(angles.sine[1][3][0][i].item<double>(), std::sin(3.0 * plain(grown, i, 8.0)), 1e-14);
  }
}

TEST_P(Rotate, OnePassEqualsLibTorchsOperators) {
  if (kernel_set() == KernelSet::plain) GTEST_SKIP() << "there is no pass of our own";
  for (const std::int64_t size : {64, 80, 9}) {
    for (const std::int64_t turning : {size / 2 * 2, size / 4 * 2, std::int64_t{2}}) {
      for (const bool at_end : {false, true}) {
        for (const std::int64_t angle_rows : {1, 2}) {
          config_.rotary()->at_end = at_end;
          // Queries as they are stored next to keys and values: with gaps between rows, none in them.
          const at::Tensor beside = at::randn({2, 7, 3, 3 * size}, at::kDouble);
          const at::Tensor x = beside.narrow(-1, size, size);
          const at::Tensor turns = at::randn({angle_rows, 7, 1, turning / 2}, at::kDouble);
          const auto of_dtype = [&](at::ScalarType dtype) {
            const at::Tensor in = beside.to(dtype).narrow(-1, size, size);
            const RotaryAngles angles{turns.cos().to(dtype), turns.sin().to(dtype)};
            EXPECT_TRUE(can_rotate_rows(in, angles));
            const at::Tensor out = at::full(x.sizes(), 77.0, dtype);
            rotate_into(out, in, angles, *config_.rotary());
            // The result for numbers of that kind, in float64.
            const at::Tensor exact =
                rotate(in.to(at::kDouble), {angles.cosine.to(at::kDouble), angles.sine.to(at::kDouble)},
                       *config_.rotary());
            return (out.to(at::kDouble) - exact).abs().max().item<double>();
          };
          EXPECT_LT(of_dtype(at::kFloat), 1e-6) << size << ' ' << turning << ' ' << at_end;
          EXPECT_LT(of_dtype(at::kBFloat16), 0.02) << size << ' ' << turning << ' ' << at_end;
        }
      }
    }
  }
  const at::Tensor x = at::randn({1, 2, 3, 8});
  const RotaryAngles angles{at::randn({1, 2, 1, 4}), at::randn({1, 2, 1, 4})};
  EXPECT_FALSE(
      can_rotate_rows(x.to(at::kDouble), {angles.cosine.to(at::kDouble), angles.sine.to(at::kDouble)}));
  EXPECT_FALSE(can_rotate_rows(x.transpose(2, 3), angles)) << "gaps in the rows";
  EXPECT_FALSE(can_rotate_rows(x, {angles.cosine.to(at::kBFloat16), angles.sine.to(at::kBFloat16)}));
}

}  // namespace
}  // namespace hooked::rotary_test
