#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hooked {

/// The numbers of an int64 tensor of any shape and device, in row-major order.
inline std::vector<std::int64_t> id_list(const at::Tensor& ids) {
  const at::Tensor here = ids.to(at::kCPU, at::kLong).contiguous();
  return {here.const_data_ptr<std::int64_t>(), here.const_data_ptr<std::int64_t>() + here.numel()};
}

}  // namespace hooked
