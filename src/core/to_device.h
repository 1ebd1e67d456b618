#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hooked {

/// `x` on a device. What comes from the host goes there through pinned memory, so that the host need not wait
/// until the device has caught up (Note [What the host waits for]).
at::Tensor to_device(const at::Tensor& x, const c10::Device& device);

/// Numbers as an int64 tensor there.
at::Tensor to_device(const std::vector<std::int64_t>& numbers, const c10::Device& device);

}  // namespace hooked
