#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/late_tensor.h"
#include "hooks/arrival.h"

namespace hooked {

/// Brings what runs keep from a model's devices to the host (Note [To the host]). Any thread may send.
class HostTransport {
 public:
  /// The same tensors on the host: packed into one block per device, which is sent in one copy while the
  /// device computes on. The first read of a tensor waits for all tensors of its device.
  std::vector<LateTensor> send(const std::vector<at::Tensor>& tensors);
  /// Releases the device memory of what was sent last. Returns whether there was any.
  bool let_go();

  /// Bytes that a run collects on a device before it sends them.
  std::size_t block_bytes = std::size_t{1} << 26;

 private:
  /// The state of one device.
  struct Line {
    c10::Stream stream;                ///< the stream that copies
    std::weak_ptr<Arrival> last = {};  ///< what was sent last
  };
  Line& line_of(const c10::Device& device);
  /// The same for the tensors of one device.
  std::vector<LateTensor> send_block(const std::vector<at::Tensor>& tensors);

  std::mutex mutex_;
  std::map<c10::DeviceIndex, Line> lines_;
};

/// Sends what a cache holds on devices; what is on the host stays as it is.
void send_to_host(ActivationCache& cache, HostTransport& transport);

}  // namespace hooked
