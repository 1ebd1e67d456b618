#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/late_tensor.h"

namespace hooked {

/// Numbers that are on their way from a device to the host. Any thread may ask.
class Arrival {
 public:
  /// For a copy of `from` that was just launched on the stream `copying`; `from` was computed on the stream
  /// `making`.
  Arrival(at::Tensor from, const c10::Stream& making, const c10::Stream& copying);
  ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  /// Returns once they have arrived. The first caller waits for the device, later ones need not.
  void wait();
  /// Releases the source of the copy; the device keeps it while it copies, and the host does not wait.
  /// Returns whether there was one.
  bool let_go() noexcept;

 private:
  std::atomic<bool> there_ = false;
  std::mutex mutex_;  // guards the members below
  at::Tensor from_;
  c10::Stream making_;
  c10::Event copied_;
};

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
