#pragma once

#include <c10/core/Device.h>

#include <cstdint>

/// Memory of the strict device that runs out. As on CUDA what then is thrown is a c10::OutOfMemoryError that
/// says how many bytes there was no room for.
namespace hooked::strict {

/// What tensors of one device hold, in bytes of whole pages.
std::int64_t bytes_in_use(int device = 0);

/// While it lives, each device has so many bytes of memory and no more. One at a time.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  /// The most that one device held since the limit is there.
  std::int64_t peak() const;
  /// How often there was no room.
  std::int64_t refusals() const;
};

/// Whether memory is there again after it ran out.
enum class RunsOut : std::uint8_t { once, for_good };

/// While it lives, the `k`-th piece of memory that is asked for from now on, from 1, is not there. One at a
/// time.
class FailingAllocation {
 public:
  FailingAllocation(std::int64_t k, RunsOut runs_out);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  /// Whether so many pieces were asked for.
  bool failed() const;
};

// For the device.

/// What there is, without a limit, too.
std::int64_t memory_of_device();
/// Counts a piece of `bytes` in whole pages, or throws c10::OutOfMemoryError for `asked` bytes.
void take_memory(c10::DeviceIndex device, std::size_t bytes, std::size_t asked);
/// It came back.
void give_memory_back(c10::DeviceIndex device, std::size_t bytes) noexcept;

}  // namespace hooked::strict
