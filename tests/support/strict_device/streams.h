#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>

/// Streams. Work of a device's first is done at once. Each device has one more, whose work is done as late as
/// can be: when somebody waits for an event behind it. What does not wait reads numbers that are not there.
namespace hooked::strict {

/// Of the calling thread.
c10::Stream current_stream(c10::Device device) noexcept;
/// Makes another the current one of its device, and gives the one before.
c10::Stream exchange_stream(c10::Stream stream) noexcept;
/// The second one of a device.
c10::Stream late_stream(c10::Device device) noexcept;

/// Whether what the thread hands to the device now is done late.
bool is_late(c10::Device device) noexcept;
/// Hands such work to it.
void hand_late(c10::Device device, std::function<void()> work);

/// A place in the work of the late stream.
struct LatePlace {
  c10::DeviceIndex device;
  std::uint64_t end;  ///< so much was handed to it before
};
/// Behind all that it was handed.
LatePlace late_place(c10::DeviceIndex device);
bool is_reached(const LatePlace& place);
/// Does what is left of the work before it.
void reach(const LatePlace& place);

}  // namespace hooked::strict
