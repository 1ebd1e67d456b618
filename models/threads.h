#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace hooked {

/// Calls `work(i)` for every i from 0 to `count`, neighbouring numbers on one of LibTorch's threads;
/// operators inside stay on that thread. For tasks of tens of microseconds (`for_each_task` is for large
/// ones). One task runs where it is called, and its operators may use all threads. No gradients are recorded
/// inside.
void share_among_threads(std::int64_t count, c10::function_ref<void(std::int64_t)> work);

}  // namespace hooked
