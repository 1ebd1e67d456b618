// Replaces LibTorch's CUDA library if it is missing: hooks, under the name that LibTorch looks for,
// that see one device; no kernel.
#include <ATen/detail/CUDAHooksInterface.h>

namespace {

struct CUDAHooks : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
};

}  // namespace

namespace at {
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at
