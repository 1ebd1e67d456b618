#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <mutex>

namespace hooked {

/// Numbers that are on their way from a device to the host. Any thread may ask.
class Arrival {
 public:
  /// Of what was just handed to the stream `copying`: a copy of `from`, which was made on the stream
  /// `making`.
  Arrival(at::Tensor from, const c10::Stream& making, const c10::Stream& copying);
  ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  /// Returns when they are there. The first caller waits for the device, later ones for nothing.
  void wait();
  /// Lets go of what is copied from; the device keeps it for as long as it copies, and the host does not
  /// wait. Whether there was any.
  bool let_go() noexcept;

 private:
  std::atomic<bool> there_ = false;
  std::mutex mutex_;  // of what follows
  at::Tensor from_;
  c10::Stream making_;
  c10::Event copied_;
};

}  // namespace hooked
