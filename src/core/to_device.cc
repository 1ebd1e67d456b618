#include "core/to_device.h"

#include <ATen/ops/tensor.h>

#include <cassert>
#include <stdexcept>

// Note [What the host waits for]
// A GPU runs later than the host, which only launches its kernels. Whenever the host needs a number, or a
// size that depends on numbers, it waits until all that it has launched is done, and afterwards the GPU is
// idle until there is more; such a wait also cannot be recorded in a CUDA graph. So no run and no step of a
// generation waits between its first kernel and its last. Checks happen on entry, on the host where the input
// came from; indices are sent by copies that nobody waits for; and a generation asks once per step for the
// picked tokens. Copies to or from memory that the system may move (pageable memory) wait, even if they are
// told not to.

namespace hooked {
namespace {

// Of the recording thread; there is one such scope at a time.
struct Scope {
  HostCopies* kept = nullptr;
  const HostCopies* reused = nullptr;
  std::size_t next = 0;  // of those that are used again
};
thread_local Scope scope;

// The work is the same as the first time, so its copies are, too.
at::Tensor next_copy(const at::Tensor& x) {
  if (scope.next == scope.reused->size()) throw std::logic_error("work that is recorded brings more over");
  const at::Tensor& copy = (*scope.reused)[scope.next++];
  if (copy.sizes() != x.sizes() || copy.scalar_type() != x.scalar_type()) {
    throw std::logic_error("work that is recorded brings something else over");
  }
  return copy;
}

}  // namespace

KeepHostCopies::KeepHostCopies(HostCopies& into) {
  assert(scope.kept == nullptr && scope.reused == nullptr);
  scope.kept = &into;
}
KeepHostCopies::~KeepHostCopies() { scope = {}; }

ReuseHostCopies::ReuseHostCopies(const HostCopies& from) {
  assert(scope.kept == nullptr && scope.reused == nullptr);
  scope.reused = &from;
}
ReuseHostCopies::~ReuseHostCopies() { scope = {}; }

at::Tensor to_device(const at::Tensor& x, const c10::Device& device) {
  if (x.device() == device) return x;
  if (device.is_cpu() || !x.is_cpu()) return x.to(device);
  if (scope.reused != nullptr) return next_copy(x);
  // Tensors in which one number is read at several places, such as expanded ones, are never pinned.
  const at::Tensor whole = x.is_non_overlapping_and_dense() ? x : x.contiguous();
  at::Tensor there = whole.pin_memory().to(device, x.scalar_type(), /*non_blocking=*/true);
  if (scope.kept != nullptr) scope.kept->push_back(there);
  return there;
}

at::Tensor to_device(const std::vector<std::int64_t>& numbers, const c10::Device& device) {
  return to_device(at::tensor(numbers, at::kLong), device);
}

}  // namespace hooked
