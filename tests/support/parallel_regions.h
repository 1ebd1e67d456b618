#pragma once

#include <cstdint>

namespace hooked {

/// Parallel regions that the process has entered since it began. Programs that call this count them.
std::int64_t parallel_regions();

}  // namespace hooked
