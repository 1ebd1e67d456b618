#include "analysis/circuits/left_singular.h"

#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>

#include <tuple>

#include "analysis/values/float32_at_least.h"

namespace hooked {

LeftSingular left_singular(const at::Tensor& matrix) {
  const auto wide = float32_at_least(matrix);
  // A = R^T Q^T has the left singular vectors of R^T.
  const auto small = wide.size(1) > wide.size(0) ? std::get<1>(at::linalg_qr(wide.mT(), "r")).mT() : wide;
  const auto [U, S, V] = at::linalg_svd(small, false);
  return {S, U};
}

}  // namespace hooked
