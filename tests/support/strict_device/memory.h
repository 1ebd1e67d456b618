#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <map>
#include <vector>

namespace hooked::strict {

/// The device that the calling thread allocates on.
c10::DeviceIndex current_device() noexcept;
void set_current_device(c10::DeviceIndex index) noexcept;

/// Memory of the device, in closed pages full of NaN.
c10::Allocator* device_allocator();

/// Memory of the host that copies need not wait for.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

/// Whether a tensor is on the strict device.
bool on_device(const at::Tensor& tensor);

/// The same tensor, without owning its memory.
at::Tensor borrowed(const at::Tensor& tensor);

/// Memory of the device on which its kernels work: accessible while this lives.
class OpenMemory {
 public:
  OpenMemory() = default;
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
  ~OpenMemory();

  /// The same numbers as a CPU tensor. Tensors of one storage share a storage again.
  at::Tensor alias(const at::Tensor& tensor);

 private:
  c10::Storage& host_storage(const c10::Storage& storage);

  std::map<c10::StorageImpl*, c10::Storage> storages_;
  std::vector<void*> opened_;  ///< first pages
};

/// Ends the process with a message if the host touches memory of the device.
void watch_for_touches();

}  // namespace hooked::strict
