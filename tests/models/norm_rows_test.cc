#include "models/ops/norm_rows.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/sqrt.h>

#include "hooked/core/kernel_set.h"
#include "tests/support/test.h"

namespace hooked::norm_rows_test {
namespace {

struct Exact {
  at::Tensor normalized, scale, weighted;
};

Exact exactly(const at::Tensor& x, const RowNorm& how) {
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor centred = how.centred ? wide - wide.mean(-1, /*keepdim=*/true) : wide;
  Exact exact;
  exact.scale = at::sqrt(centred.square().mean(-1, /*keepdim=*/true) + how.eps);
  exact.normalized = centred / exact.scale;
  exact.weighted = exact.normalized;
  if (how.weight.defined())
    exact.weighted = exact.weighted * (how.weight.to(at::kDouble) + (how.offset ? 1.0 : 0.0));
  if (how.bias.defined()) exact.weighted = exact.weighted + how.bias.to(at::kDouble);
  return exact;
}

double difference(const at::Tensor& ours, const at::Tensor& exact) {
  return ((ours.to(at::kDouble) - exact).abs() / exact.abs().clamp_min(1.0)).max().item<double>();
}

void expect_exact(const at::Tensor& x, const RowNorm& how, double tolerance) {
  ASSERT_EQ(can_norm_rows(x, how), kernel_set() != KernelSet::plain);
  if (kernel_set() == KernelSet::plain) GTEST_SKIP() << "LibTorch's operators are taken";
  std::vector<std::int64_t> one_a_row = x.sizes().vec();
  one_a_row.back() = 1;
  const NormedRows all{at::empty(x.sizes(), x.options()), at::empty(x.sizes(), x.options()),
                       at::empty(one_a_row, x.options().dtype(at::kFloat))};
  norm_rows_into(all, x, how);
  const Exact exact = exactly(x, how);
  EXPECT_LT(difference(all.weighted, exact.weighted), tolerance);
  EXPECT_LT(difference(all.normalized, exact.normalized), tolerance);
  EXPECT_LT(difference(all.scale, exact.scale), 1e-5);
  const NormedRows only_weighted{at::empty(x.sizes(), x.options())};
  norm_rows_into(only_weighted, x, how);
  EXPECT_TRUE(only_weighted.weighted.equal(all.weighted)) << "what else is written changes nothing";
}

TEST(NormRows, AreExactInOddSizesAndBothKinds) {
  for (const bool centred : {true, false}) {
    for (const std::int64_t size : {1, 3, 15, 16, 65, 768}) {
      const at::Tensor x = at::randn({2, 5, size}) * 3 + 1;
      const at::Tensor w = at::randn({size}), b = at::randn({size});
      expect_exact(x, {.centred = centred, .eps = 1e-5}, 1e-5);
      expect_exact(x, {.centred = centred, .eps = 1e-5, .weight = w}, 1e-5);
      expect_exact(x, {.centred = centred, .eps = 1e-5, .weight = w, .offset = true}, 1e-5);
      expect_exact(x, {.centred = centred, .eps = 1e-5, .weight = w, .bias = b}, 1e-5);
      expect_exact(x.to(at::kBFloat16), {.centred = centred, .eps = 1e-5, .weight = w.to(at::kBFloat16)},
                   8e-3);
    }
  }
}

TEST(NormRows, ReadRowsWhereTheyLie) {
  // A head's queries inside a fused product, with a separate weight for each head.
  const at::Tensor fused = at::randn({2, 700, 3 * 4 * 8});
  const at::Tensor queries = fused.narrow(-1, 32, 32).unflatten(-1, {4, 8});
  expect_exact(queries, {.centred = false, .eps = 1e-6, .weight = at::randn({4, 8})}, 1e-5);
  EXPECT_FALSE(can_norm_rows(fused.transpose(1, 2), {.centred = false, .eps = 1e-6})) << "rows with gaps";
  EXPECT_FALSE(can_norm_rows(fused.to(at::kDouble), {.centred = false, .eps = 1e-6}));
}

TEST(NormRows, LargeMeansAndWhatIsNotANumber) {
  if (kernel_set() == KernelSet::plain) GTEST_SKIP() << "LibTorch's operators are taken";
  expect_exact(at::randn({3, 768}) + 1000, {.centred = true, .eps = 1e-5}, 1e-3);
  at::Tensor x = at::randn({2, 16}).to(at::kBFloat16);
  x[0][3] = std::numeric_limits<double>::quiet_NaN();
  const NormedRows out{at::empty_like(x)};
  norm_rows_into(out, x, {.centred = false, .eps = 1e-5});
  EXPECT_TRUE(out.weighted[0].isnan().all().item<bool>());
  EXPECT_FALSE(out.weighted[1].isnan().any().item<bool>());
}

// The gradient of `exactly`, by LibTorch. Float32 rounds by 2^-24, and a row magnifies that by its numbers
// over its scale: a row of three numbers that are nearly equal has a gradient of few correct digits.
void expect_exact_back(const at::Tensor& x, const at::Tensor& gradient, const RowNorm& how) {
  if (kernel_set() == KernelSet::plain) GTEST_SKIP() << "LibTorch's operators are taken";
  const at::Tensor got = at::empty(x.sizes(), x.options());
  norm_rows_back_into(got, gradient, x, how);
  at::Tensor wide = x.detach().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  wide.requires_grad_(true);
  const Exact exact = exactly(wide, how);
  exact.weighted.backward(gradient.to(at::kDouble));
  at::Tensor weighted = gradient.to(at::kDouble).abs();
  if (how.weight.defined())
    weighted = weighted * (how.weight.to(at::kDouble) + (how.offset ? 1.0 : 0.0)).abs();
  const at::Tensor magnified = wide.detach().abs().amax(-1, /*keepdim=*/true) *
                               weighted.amax(-1, /*keepdim=*/true) / exact.scale.detach().square();
  const double of_result = x.scalar_type() == at::kFloat ? std::ldexp(1.0, -24) : std::ldexp(1.0, -8);
  const at::Tensor bound = 16 * std::ldexp(1.0, -24) * magnified + of_result * wide.grad().abs();
  const at::Tensor errors = (got.to(at::kDouble) - wide.grad()).abs();
  EXPECT_TRUE((errors <= bound).all().item<bool>())
      << x.sizes() << ": " << (errors / bound).max().item<double>();
}

TEST(NormRows, PassGradientsBack) {
  for (const bool centred : {true, false}) {
    for (const std::int64_t size : {1, 3, 15, 16, 65, 768}) {
      const at::Tensor x = at::randn({2, 5, size}) * 3 + 1, gradient = at::randn({2, 5, size});
      const at::Tensor w = at::randn({size}), b = at::randn({size});
      expect_exact_back(x, gradient, {.centred = centred, .eps = 1e-5});
      expect_exact_back(x, gradient, {.centred = centred, .eps = 1e-5, .weight = w, .bias = b});
      expect_exact_back(x, gradient, {.centred = centred, .eps = 1e-5, .weight = w, .offset = true});
      expect_exact_back(x.to(at::kBFloat16), gradient.to(at::kBFloat16),
                        {.centred = centred, .eps = 1e-5, .weight = w.to(at::kBFloat16)});
    }
  }
  const at::Tensor fused = at::randn({2, 70, 3 * 4 * 8});
  const at::Tensor queries = fused.narrow(-1, 32, 32).unflatten(-1, {4, 8});
  expect_exact_back(queries, at::randn(queries.sizes()),
                    {.centred = false, .eps = 1e-6, .weight = at::randn({4, 8})});
}

}  // namespace
}  // namespace hooked::norm_rows_test
