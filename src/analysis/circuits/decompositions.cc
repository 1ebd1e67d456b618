#include "analysis/circuits/decompositions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_eigvals.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>

#include <limits>
#include <tuple>

#include "analysis/values/float32_at_least.h"

namespace hooked {

at::Tensor eigenvalues_of(const at::Tensor& matrices) {
  const auto numbers = float32_at_least(matrices).to(at::kCPU);
  const auto missing = without_numbers(numbers);  // which LAPACK does not accept
  return at::linalg_eigvals(numbers.masked_fill(missing.unsqueeze(-1).unsqueeze(-1), 0.0))
      .masked_fill(missing.unsqueeze(-1), std::numeric_limits<double>::quiet_NaN());
}

at::Tensor without_numbers(const at::Tensor& matrices) { return matrices.isnan().any(-1).any(-1); }

LeftSingular left_singular(const at::Tensor& matrix) {
  const auto wide = float32_at_least(matrix);
  // A = R^T Q^T has the left singular vectors of R^T.
  const auto small = wide.size(1) > wide.size(0) ? std::get<1>(at::linalg_qr(wide.mT(), "r")).mT() : wide;
  const auto [U, S, V] = at::linalg_svd(small, false);
  return {S, U};
}

}  // namespace hooked
