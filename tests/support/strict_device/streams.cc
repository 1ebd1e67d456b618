#include "tests/support/strict_device/streams.h"

#include <array>
#include <deque>
#include <mutex>
#include <utility>

#include "tests/support/strict_device/device.h"

namespace hooked::strict {
namespace {

constexpr c10::StreamId kFirst = 0, kLate = 1;

struct LateWork {
  std::mutex mutex;
  std::deque<std::function<void()>> left;
  std::uint64_t done = 0;
};

// Work may be pending when the process ends.
LateWork& late_work(c10::DeviceIndex device) {
  static auto* const all = new std::array<LateWork, kDevices>;
  return all->at(static_cast<std::size_t>(device));
}

thread_local std::array<c10::StreamId, kDevices> current{};

c10::Stream stream_of(c10::Device device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, device, id);
}

}  // namespace

c10::Stream current_stream(c10::Device device) noexcept {
  return stream_of(device, current[static_cast<std::size_t>(device.has_index() ? device.index() : 0)]);
}

c10::Stream exchange_stream(c10::Stream stream) noexcept {
  return stream_of(stream.device(),
                   std::exchange(current[static_cast<std::size_t>(stream.device_index())], stream.id()));
}

c10::Stream late_stream(c10::Device device) noexcept { return stream_of(device, kLate); }

bool is_late(c10::Device device) noexcept {
  return current[static_cast<std::size_t>(device.index())] != kFirst;
}

void hand_late(c10::Device device, std::function<void()> work) {
  LateWork& late = late_work(device.index());
  const std::lock_guard lock(late.mutex);
  late.left.push_back(std::move(work));
}

LatePlace late_place(c10::DeviceIndex device) {
  LateWork& late = late_work(device);
  const std::lock_guard lock(late.mutex);
  return {device, late.done + late.left.size()};
}

bool is_reached(const LatePlace& place) {
  LateWork& late = late_work(place.device);
  const std::lock_guard lock(late.mutex);
  return late.done >= place.end;
}

void reach(const LatePlace& place) {
  LateWork& late = late_work(place.device);
  const std::lock_guard lock(late.mutex);
  while (late.done < place.end) {
    late.left.front()();
    late.left.pop_front();
    ++late.done;
  }
}

}  // namespace hooked::strict
