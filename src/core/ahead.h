#pragma once

#include <future>

namespace hooked {

/// For std::async: on a thread of its own, or, if the system has no room for one, when the result is asked
/// for.
inline constexpr std::launch kAhead = std::launch::async | std::launch::deferred;

}  // namespace hooked
