// Products of every width, also odd ones, by every number of rows up to 33, against float64. By default some
// of the widths; all of them if HOOKED_ALL_SIZES is in the environment.
#include <ATen/ops/linear.h>

#include <cstdlib>

#include "models/ops/ops.h"
#include "models/storage/matrix.h"
#include "models/storage/product.h"
#include "models/storage/workspace.h"
#include "tests/support/test.h"

namespace hooked::product_sizes_test {
namespace {

constexpr std::int64_t kLeast = 20, kMost = 600, kRows = 33;

// A product in float64, and the sums of magnitudes relative to which its error is measured.
struct Exact {
  at::Tensor value, scale;

  Exact(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias)
      : value(at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble))),
        scale(at::linear(x.to(at::kDouble).abs(), weight.to(at::kDouble).abs(), bias.to(at::kDouble).abs())) {
  }

  // The largest error of the first rows.
  double error(const at::Tensor& got) const {
    const std::int64_t rows = got.size(0);
    return ((got.to(at::kDouble) - value.narrow(0, 0, rows)).abs() / (scale.narrow(0, 0, rows) + 1e-3))
        .max()
        .item<double>();
  }
};

class ProductSizes : public testing::TestWithParam<at::ScalarType> {};

TEST_P(ProductSizes, AreAsInFloat64) {
  const at::ScalarType dtype = GetParam();
  const double rounded = dtype == at::kBFloat16 ? 8e-3 : dtype == at::kHalf ? 1e-3 : 1.5e-6;
  const std::int64_t step = std::getenv("HOOKED_ALL_SIZES") != nullptr ? 1 : 29;
  const Workspace memory;
  for (std::int64_t width = kLeast; width <= kMost; width += step) {
    const at::Tensor x = at::randn({kRows, width}).to(dtype), weight = at::randn({width, width}).to(dtype),
                     bias = at::randn({width}).to(dtype);
    const Exact exact(x, weight, bias);
    // Outputs in groups that fit blocks.
    const std::int64_t outputs = std::max<std::int64_t>(width / 16 * 16, 16);
    const Matrix matrix(outputs, width, {.out = outputs, .in = width}, x.options(), Storage::fastest);
    matrix.as_out_in().write(weight.narrow(0, 0, outputs));
    const at::Tensor of_matrix = bias.narrow(0, 0, outputs);
    const Exact exact_matrix(x, weight.narrow(0, 0, outputs), of_matrix);
    for (std::int64_t rows = 1; rows <= kRows; ++rows) {
      const at::Tensor some = x.narrow(0, 0, rows);
      at::Tensor product = at::empty({rows, width}, x.options()),
                 packed = at::empty({rows, outputs}, x.options());
      linear_into(product, some, weight, bias);
      ASSERT_LT(exact.error(product), rounded) << "plain, width " << width << ", rows " << rows;
      matrix.multiply_into(packed, some, of_matrix);
      ASSERT_LT(exact_matrix.error(packed), rounded) << "matrix, width " << width << ", rows " << rows;
      const at::Tensor unrounded = ops::unrounded_linear(some, Matrix(weight), bias, Memory{&memory});
      ASSERT_LT(exact.error(unrounded), 1.5e-6) << "unrounded, width " << width << ", rows " << rows;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ProductSizes, testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& test) { return std::string(toString(test.param)); });

}  // namespace
}  // namespace hooked::product_sizes_test
