#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/out_of_memory.h"

namespace hooked {

/// The memory that an analysis needs on a device, in addition to its runs.
MemoryUse memory_of_analysis(const c10::Device& device, std::string_view where);

/// Calls `work(begin, end)` for consecutive stretches of the numbers from 0 to `count`, `most` of them at a
/// time, and fewer if the memory of the device does not allow it: a stretch that runs out is halved, and no
/// later one is longer (also called an OOM retry). What such a call has done until then must be done again.
/// Returns the length of stretches in the end. Throws MemoryError in the name of `where` if there is not
/// enough memory for one number alone.
std::int64_t as_memory_allows(const c10::Device& device, std::string_view where, std::int64_t count,
                              std::int64_t most,
                              const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace hooked
