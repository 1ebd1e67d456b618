#include "tests/support/strict_device/limits.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <mutex>

#include "tests/support/strict_device/device.h"

namespace hooked::strict {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Ledger {
  std::mutex mutex;
  std::array<std::int64_t, kDevices> in_use{};
  std::int64_t limit = kNoLimit, peak = 0, refusals = 0;
  std::int64_t asked = 0;          // pieces since the FailingAllocation is there
  std::int64_t fails_at = kNever;  // the piece of them that cannot be allocated
  RunsOut runs_out = RunsOut::once;
  bool failed = false;
};

// The last tensors may go after every static.
Ledger& ledger() {
  static auto* const one = new Ledger;
  return *one;
}

}  // namespace

std::int64_t bytes_in_use(int device) {
  const std::lock_guard lock(ledger().mutex);
  return ledger().in_use.at(static_cast<std::size_t>(device));
}

MemoryLimit::MemoryLimit(std::int64_t bytes) {
  const std::lock_guard lock(ledger().mutex);
  ledger().limit = bytes;
  ledger().peak = *std::max_element(ledger().in_use.begin(), ledger().in_use.end());
  ledger().refusals = 0;
}
MemoryLimit::~MemoryLimit() {
  const std::lock_guard lock(ledger().mutex);
  ledger().limit = kNoLimit;
}
std::int64_t MemoryLimit::peak() const {
  const std::lock_guard lock(ledger().mutex);
  return ledger().peak;
}
std::int64_t MemoryLimit::refusals() const {
  const std::lock_guard lock(ledger().mutex);
  return ledger().refusals;
}

FailingAllocation::FailingAllocation(std::int64_t k, RunsOut runs_out) {
  const std::lock_guard lock(ledger().mutex);
  ledger().asked = 0;
  ledger().fails_at = k;
  ledger().runs_out = runs_out;
  ledger().failed = false;
}
FailingAllocation::~FailingAllocation() {
  const std::lock_guard lock(ledger().mutex);
  ledger().fails_at = kNever;
}
bool FailingAllocation::failed() const {
  const std::lock_guard lock(ledger().mutex);
  return ledger().failed;
}

std::int64_t memory_of_device() {
  const std::lock_guard lock(ledger().mutex);
  return ledger().limit;
}

void take_memory(c10::DeviceIndex device, std::size_t bytes, std::size_t asked) {
  Ledger& of = ledger();
  const std::lock_guard lock(of.mutex);
  const std::int64_t piece = ++of.asked;
  const bool fails = of.runs_out == RunsOut::once ? piece == of.fails_at : piece >= of.fails_at;
  std::int64_t& in_use = of.in_use.at(static_cast<std::size_t>(device));
  const auto after = in_use + static_cast<std::int64_t>(bytes);
  if (fails || after > of.limit) {
    of.failed |= fails;
    ++of.refusals;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "strict device out of memory. Tried to allocate ", asked,
                     " bytes");
  }
  in_use = after;
  of.peak = std::max(of.peak, in_use);
}

void give_memory_back(c10::DeviceIndex device, std::size_t bytes) noexcept {
  const std::lock_guard lock(ledger().mutex);
  ledger().in_use[static_cast<std::size_t>(device)] -= static_cast<std::int64_t>(bytes);
}

}  // namespace hooked::strict
