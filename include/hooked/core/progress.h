#pragma once

#include <cstdint>
#include <functional>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Reports how far a long piece of work has come: `done` of `total` bytes. Called by the thread that was
/// asked for the work, with numbers that never decrease; the last call has done == total. What it throws ends
/// the work.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

}  // namespace hooked
