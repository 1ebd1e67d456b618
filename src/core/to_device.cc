#include "core/to_device.h"

#include <ATen/ops/tensor.h>

// Note [What the host waits for]
// A GPU works behind the host, which only hands it kernels. Wherever the host wants a number, or a size that
// depends on numbers, it waits until all that it has handed out is done, and the GPU is idle afterwards until
// there is more; nothing of the sort can be recorded as a CUDA graph. So no run and no step of a generation
// waits between its first kernel and its last: what is checked is checked at the door, on the host where the
// input came from, indices go over by copies that nobody waits for, and a generation asks once a step for
// what was picked. Copies to or from memory that the system may move (pageable memory) wait, whatever they
// are told.

namespace hooked {

at::Tensor to_device(const at::Tensor& x, const c10::Device& device) {
  if (device.is_cpu() || !x.is_cpu()) return x.to(device);
  return x.pin_memory().to(device, x.scalar_type(), /*non_blocking=*/true);
}

at::Tensor to_device(const std::vector<std::int64_t>& numbers, const c10::Device& device) {
  return to_device(at::tensor(numbers, at::kLong), device);
}

}  // namespace hooked
