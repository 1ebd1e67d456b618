#pragma once

#include <c10/core/Device.h>

#include <cstdint>

/// Memory of the strict device that runs out. As on CUDA this throws a c10::OutOfMemoryError that
/// says how many bytes could not be allocated.
namespace hooked::strict {

/// The memory of one device's tensors, in bytes of whole pages.
std::int64_t bytes_in_use(int device = 0);

/// While it lives, each device has that many bytes of memory and no more. Only one may live at a time.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  /// The most that one device held since the limit was set.
  std::int64_t peak() const;
  /// How often memory ran out.
  std::int64_t refusals() const;
};

/// Whether memory is available again after it ran out.
enum class RunsOut : std::uint8_t { once, for_good };

/// While it lives, the `k`-th allocation from now on, counted from 1, fails. Only one may live at a
/// time.
class FailingAllocation {
 public:
  FailingAllocation(std::int64_t k, RunsOut runs_out);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  /// Whether that many pieces were asked for.
  bool failed() const;
};

// For the device.

/// The memory that exists, also without a limit.
std::int64_t memory_of_device();
/// Counts a piece of `bytes` in whole pages, or throws c10::OutOfMemoryError for `asked` bytes.
void take_memory(c10::DeviceIndex device, std::size_t bytes, std::size_t asked);
/// Counts a piece as freed.
void give_memory_back(c10::DeviceIndex device, std::size_t bytes) noexcept;

}  // namespace hooked::strict
