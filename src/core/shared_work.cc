#include "core/shared_work.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace hooked {

void share_stretches(std::int64_t count, std::int64_t least,
                     c10::function_ref<void(std::int64_t, std::int64_t)> work) {
  if (count <= least || at::get_num_threads() == 1) {
    work(0, count);
    return;
  }
  // The iterator walks over one byte per number.
  at::Tensor bytes = at::empty({count}, at::TensorOptions(at::kByte));
  const char* const begin = static_cast<const char*>(bytes.const_data_ptr());
  auto iterator = at::TensorIterator::borrowing_nullary_op(bytes);
  iterator.for_each(
      [&](char** data, const std::int64_t* /*strides*/, std::int64_t size, std::int64_t stretches) {
        const std::int64_t first = data[0] - begin;
        work(first, first + size * stretches);
      },
      least);
}

void share_operations(std::int64_t count, std::int64_t operations,
                      c10::function_ref<void(std::int64_t, std::int64_t)> work) {
  const std::int64_t each = std::max<std::int64_t>(operations / std::max<std::int64_t>(count, 1), 1);
  share_stretches(count, (kSerialOperations + each - 1) / each, work);
}

void share_among_threads(std::int64_t count, c10::function_ref<void(std::int64_t)> work) {
  const at::ThreadLocalState modes;  // LibTorch's threads do not have the caller's: inference mode and others
  share_stretches(count, 1, [&](std::int64_t first, std::int64_t end) {
    const at::ThreadLocalStateGuard guard(modes);
    const at::NoGradGuard no_grad;
    for (std::int64_t i = first; i < end; ++i) work(i);
  });
}

}  // namespace hooked
