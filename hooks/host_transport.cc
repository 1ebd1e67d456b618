#include "hooks/host_transport.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <numeric>
#include <utility>

// Note [To the host]
// A copy to the host that the host waits for drains the device's whole queue, and each copy has a fixed cost.
// So what a run keeps stays on the device until the run ends or has collected a block. Then one kernel packs
// it, widest dtypes first so that every tensor begins at a multiple of its element size, and one copy takes
// the block to pinned memory, on a stream of its own; the next run is launched and computed meanwhile. The
// cache holds views of the pinned block, which wait when they are first read. The block on the device is
// released when it has been read, when the next one is sent, or with the cache. Later work on the device
// waits for the copy there; the host does not.

namespace hooked {

Arrival::Arrival(at::Tensor from, const c10::Stream& making, const c10::Stream& copying)
    : from_(std::move(from)), making_(making), copied_(copying.device_type()) {
  copied_.record(copying);
}

Arrival::~Arrival() { let_go(); }

void Arrival::wait() {
  if (there_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  if (there_.load(std::memory_order_relaxed)) return;
  copied_.synchronize();
  from_ = at::Tensor();
  there_.store(true, std::memory_order_release);
}

bool Arrival::let_go() noexcept {
  const std::lock_guard lock(mutex_);
  if (!from_.defined()) return false;
  try {
    copied_.block(making_);
  } catch (const std::exception&) {
    // The device is lost, and its memory with it.
  }
  from_ = at::Tensor();
  return true;
}

HostTransport::Line& HostTransport::line_of(const c10::Device& device) {
  const auto found = lines_.find(device.index());
  if (found != lines_.end()) return found->second;
  const c10::impl::VirtualGuardImpl backend(device.type());
  return lines_.emplace(device.index(), Line{backend.getStreamFromGlobalPool(device)}).first->second;
}

std::vector<LateTensor> HostTransport::send(const std::vector<at::Tensor>& tensors) {
  std::map<c10::DeviceIndex, std::vector<std::size_t>> of_device;
  for (std::size_t i = 0; i < tensors.size(); ++i) of_device[tensors[i].device().index()].push_back(i);
  std::vector<LateTensor> there(tensors.size());
  for (const auto& [index, numbers] : of_device) {
    std::vector<at::Tensor> own;
    for (const std::size_t number : numbers) own.push_back(tensors[number]);
    const std::vector<LateTensor> sent = send_block(own);
    for (std::size_t i = 0; i < numbers.size(); ++i) there[numbers[i]] = sent[i];
  }
  return there;
}

std::vector<LateTensor> HostTransport::send_block(const std::vector<at::Tensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].itemsize() > tensors[b].itemsize();
  });
  // One tensor may have been kept at several points: it is sent once.
  std::map<std::pair<const void*, std::size_t>, std::int64_t> sent;
  std::vector<at::Tensor> pieces;
  std::vector<std::int64_t> begins(tensors.size());
  std::int64_t bytes = 0;
  for (const std::size_t i : order) {
    const at::Tensor& tensor = tensors[i];
    begins[i] = bytes;
    if (tensor.numel() == 0) continue;
    if (tensor.is_contiguous()) {
      const auto [known, is_new] = sent.try_emplace({tensor.const_data_ptr(), tensor.nbytes()}, bytes);
      begins[i] = known->second;
      if (!is_new) continue;
    }
    pieces.push_back(tensor.contiguous().view({-1}).view(at::kByte));
    bytes += pieces.back().numel();
  }
  const at::TensorOptions of_bytes(at::kByte);
  const at::Tensor host = at::empty({bytes}, of_bytes.pinned_memory(bytes > 0));
  std::shared_ptr<Arrival> arrival;
  if (bytes > 0) {
    const at::Tensor block = pieces.size() == 1 ? pieces.front() : at::cat(pieces);
    const c10::Device device = block.device();
    const c10::Stream making = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    const std::lock_guard lock(mutex_);
    Line& line = line_of(device);
    if (const auto last = line.last.lock()) last->let_go();
    c10::Event packed(device.type());
    packed.record(making);
    packed.block(line.stream);
    const c10::StreamGuard beside(line.stream);
    host.copy_(block, /*non_blocking=*/true);
    arrival = std::make_shared<Arrival>(block, making, line.stream);
    line.last = arrival;
  }
  std::vector<LateTensor> there;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    // Not a view of `host`: writing into one tensor must not count as a write into all of them.
    at::Tensor own = at::empty({0}, at::TensorOptions(tensor.scalar_type()));
    own.set_(host.storage(), begins[i] / static_cast<std::int64_t>(tensor.itemsize()), tensor.sizes());
    there.emplace_back(std::move(own), arrival);
  }
  return there;
}

bool HostTransport::let_go() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (auto& [index, line] : lines_) {
    if (const auto last = line.last.lock()) any = last->let_go() || any;
  }
  return any;
}

void send_to_host(ActivationCache& cache, HostTransport& transport) {
  std::vector<ActivationCache::Entry> entries;
  std::vector<at::Tensor> tensors;
  for (const ActivationCache::Entry& entry : cache) {
    if (entry.held.device().is_cpu()) continue;
    entries.push_back(entry);
    tensors.push_back(entry.value());
  }
  const std::vector<LateTensor> sent = transport.send(tensors);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    entries[i].held = sent[i];
    cache.insert(std::move(entries[i]));
  }
}

}  // namespace hooked
