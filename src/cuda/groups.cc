// Whether a GPU multiplies groups of rows without reporting their lengths to the host.
#include <ATen/TensorOperators.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <exception>

#include "models/storage/groups_kernel.h"

namespace hooked {
namespace {

// LibTorch 2.11 has a kernel for bfloat16 on these generations; otherwise its operator copies the lengths to
// the host and processes the groups one by one.
bool has_kernel(int index, c10::ScalarType dtype) {
  const int generation = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))->major;
  return dtype == c10::ScalarType::BFloat16 && (generation == 9 || generation == 10);
}

// Tests the product for groups of 5, 0 and 11 rows of ones, whose matrices are ones, twos and threes.
bool multiplies(int index, c10::ScalarType dtype) {
  constexpr std::int64_t kSize = 16;
  const auto there = at::TensorOptions(dtype).device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  const at::Tensor factors = at::arange(1, 4, there);
  const at::Tensor ends = at::full({3}, 5, there.dtype(at::kInt));
  ends.select(0, 2).fill_(kSize);
  const at::Tensor matrices = at::ones({3, kSize, kSize}, there) * factors.view({3, 1, 1});
  const at::Tensor made = at::_grouped_mm(at::ones({kSize, kSize}, there), matrices.transpose(1, 2), ends);
  const at::Tensor expected = at::ones({kSize, kSize}, there) * kSize;
  expected.narrow(0, 5, kSize - 5).mul_(3);
  return made.equal(expected);
}

}  // namespace
}  // namespace hooked

/// A hooked::MultipliesGroups.
extern "C" __attribute__((visibility("default"))) bool hooked_multiplies_groups_cuda(int index,
                                                                                     c10::ScalarType dtype) {
  try {
    const c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(index));
    return hooked::has_kernel(index, dtype) && hooked::multiplies(index, dtype);
  } catch (const std::exception&) {
    return false;
  }
}
