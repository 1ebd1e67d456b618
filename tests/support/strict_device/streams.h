#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>

/// Streams. A device's first does its work at once. Each device has a second one, which works as late as
/// possible: when somebody waits for an event after it. A reader that does not wait is too early.
namespace hooked::strict {

/// The stream of the calling thread.
c10::Stream current_stream(c10::Device device) noexcept;
/// Makes another stream the current one of its device, and returns the previous one.
c10::Stream exchange_stream(c10::Stream stream) noexcept;
/// The second stream of a device.
c10::Stream late_stream(c10::Device device) noexcept;

/// Whether work that the thread gives to the device now is done late.
bool is_late(c10::Device device) noexcept;
/// Adds such work.
void hand_late(c10::Device device, std::function<void()> work);

/// A place in the work of the late stream.
struct LatePlace {
  c10::DeviceIndex device;
  std::uint64_t end;  ///< how much was handed to it before
};
/// The place after all work given so far.
LatePlace late_place(c10::DeviceIndex device);
bool is_reached(const LatePlace& place);
/// Does the pending work before it.
void reach(const LatePlace& place);

}  // namespace hooked::strict
