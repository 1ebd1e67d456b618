#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hooked {

/// `x` on a device. Data from the host goes there through pinned memory, so that the host need not wait until
/// the device has caught up (Note [What the host waits for]).
at::Tensor to_device(const at::Tensor& x, const c10::Device& device);

/// Numbers as an int64 tensor on that device.
at::Tensor to_device(const std::vector<std::int64_t>& numbers, const c10::Device& device);

/// What to_device() returned, in order.
using HostCopies = std::vector<at::Tensor>;

/// While it lives, what to_device() copies from the host in this thread is also kept.
class KeepHostCopies {
 public:
  explicit KeepHostCopies(HostCopies& into);
  ~KeepHostCopies();
  KeepHostCopies(const KeepHostCopies&) = delete;
  KeepHostCopies& operator=(const KeepHostCopies&) = delete;
};

/// While it lives, to_device() copies nothing from the host in this thread: it returns the kept copies in
/// turn. For work that is done a second time in order to be recorded: a recording must not read host memory,
/// which will hold something else at replay.
class ReuseHostCopies {
 public:
  explicit ReuseHostCopies(const HostCopies& from);
  ~ReuseHostCopies();
  ReuseHostCopies(const ReuseHostCopies&) = delete;
  ReuseHostCopies& operator=(const ReuseHostCopies&) = delete;
};

}  // namespace hooked
