#include "analysis/values/float32_at_least.h"

namespace hooked {

at::Tensor float32_at_least(const at::Tensor& x) {
  const bool narrow = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return narrow ? x.to(at::kFloat) : x;
}

}  // namespace hooked
