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

/// What to_device() gave, in its order.
using HostCopies = std::vector<at::Tensor>;

/// While it lives, what to_device() copies from the host in this thread is kept, too.
class KeepHostCopies {
 public:
  explicit KeepHostCopies(HostCopies& into);
  ~KeepHostCopies();
  KeepHostCopies(const KeepHostCopies&) = delete;
  KeepHostCopies& operator=(const KeepHostCopies&) = delete;
};

/// While it lives, to_device() copies nothing from the host in this thread: it gives what was kept, one after
/// the other. For work that is done a second time in order to be recorded: a recording must not read memory
/// of the host, which will hold something else when it is replayed.
class ReuseHostCopies {
 public:
  explicit ReuseHostCopies(const HostCopies& from);
  ~ReuseHostCopies();
  ReuseHostCopies(const ReuseHostCopies&) = delete;
  ReuseHostCopies& operator=(const ReuseHostCopies&) = delete;
};

}  // namespace hooked
