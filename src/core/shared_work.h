#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace hooked {

/// Below this number of floating-point operations (some 10 µs of one thread) starting and joining threads
/// costs more than it saves, and much more if another process is busy.
inline constexpr std::int64_t kSerialOperations = std::int64_t{1} << 19;

/// Calls `work(first, end)` for stretches of the numbers from 0 to `count`, on LibTorch's threads, until all
/// are done. A thread gets consecutive numbers, `least` of them or more; few numbers are one stretch on the
/// calling thread, whose operators may use all threads. (at::parallel_for is serial in our sources, which are
/// compiled without OpenMP; LibTorch's iterator is not.)
void share_stretches(std::int64_t count, std::int64_t least,
                     c10::function_ref<void(std::int64_t first, std::int64_t end)> work);

/// The same for numbers that together take `operations` floating-point operations: a thread gets at least
/// kSerialOperations of them.
void share_operations(std::int64_t count, std::int64_t operations,
                      c10::function_ref<void(std::int64_t first, std::int64_t end)> work);

/// The same for tasks of tens of microseconds and more, each with LibTorch's operators inside
/// (`for_each_task` is for large ones). These operators stay on the task's thread, and record no gradients.
void share_among_threads(std::int64_t count, c10::function_ref<void(std::int64_t)> work);

}  // namespace hooked
