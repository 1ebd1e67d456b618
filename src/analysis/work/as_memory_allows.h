#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/out_of_memory.h"

namespace hooked {

/// The memory that an analysis needs on a device, beside its runs.
MemoryUse memory_of_analysis(const c10::Device& device, std::string_view where);

/// Calls `work(begin, end)` for neighbouring stretches of the numbers from 0 to `count`, `most` of them at a
/// time, and fewer where the memory of the device does not allow it: a stretch that runs out is
/// halved, and no later one is longer. What such a call has done until then must be done again. Gives how
/// many it was at a time in the end. Throws MemoryError in the name of `where` when there is no room for one
/// alone.
std::int64_t as_memory_allows(const c10::Device& device, std::string_view where, std::int64_t count,
                              std::int64_t most,
                              const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace hooked
