#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hooked {

/// The sizes of `x` with the last one replaced.
inline std::vector<std::int64_t> with_last_size(const at::Tensor& x, std::int64_t last) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

}  // namespace hooked
