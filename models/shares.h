#pragma once

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>

namespace hooked {

/// Calls work(first, count) until the numbers from 0 to `shares` are done, on LibTorch's threads. A thread
/// gets neighbouring numbers, and none for less than some 10 µs of work (`operations`: floating-point, of all
/// shares): starting and joining threads would cost more than they save. (at::parallel_for is serial in our
/// sources, which are compiled without OpenMP; LibTorch's iterator is not.)
template <class Work>
void for_each_share(std::int64_t shares, std::int64_t operations, const Work& work) {
  constexpr std::int64_t kLeastOperations = std::int64_t{1} << 19;
  const std::int64_t each = std::max<std::int64_t>(operations / std::max<std::int64_t>(shares, 1), 1);
  const std::int64_t least = (kLeastOperations + each - 1) / each;
  if (at::get_num_threads() == 1 || least >= shares) return work(0, shares);
  at::Tensor numbers = at::empty({shares}, at::kByte);
  const char* begin = static_cast<const char*>(numbers.const_data_ptr());
  auto iterator = at::TensorIterator::borrowing_nullary_op(numbers);
  iterator.for_each([&](char** data, const std::int64_t*, std::int64_t count,
                        std::int64_t stretches) { work(data[0] - begin, count * stretches); },
                    least);
}

}  // namespace hooked
