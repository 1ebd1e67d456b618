#include "analysis/eigenvalues.h"

#include <ATen/ops/linalg_eigvals.h>

#include "analysis/float32_at_least.h"

namespace hooked {

at::Tensor eigenvalues_of(const at::Tensor& matrices) {
  return at::linalg_eigvals(float32_at_least(matrices).to(at::kCPU));
}

}  // namespace hooked
