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

}  // namespace hooked
