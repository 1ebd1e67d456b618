#include "analysis/circuits/eigenvalues.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_eigvals.h>

#include <limits>

#include "analysis/values/float32_at_least.h"

namespace hooked {

at::Tensor eigenvalues_of(const at::Tensor& matrices) {
  const auto numbers = float32_at_least(matrices).to(at::kCPU);
  const auto missing = without_numbers(numbers);  // which LAPACK does not accept
  return at::linalg_eigvals(numbers.masked_fill(missing.unsqueeze(-1).unsqueeze(-1), 0.0))
      .masked_fill(missing.unsqueeze(-1), std::numeric_limits<double>::quiet_NaN());
}

at::Tensor without_numbers(const at::Tensor& matrices) { return matrices.isnan().any(-1).any(-1); }

}  // namespace hooked
