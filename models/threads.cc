#include "models/threads.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

namespace hooked {

void share_among_threads(std::int64_t count, c10::function_ref<void(std::int64_t)> work) {
  const auto some = [&](std::int64_t first, std::int64_t end) {
    const at::NoGradGuard no_grad;  // LibTorch's threads do not know the caller's modes
    for (std::int64_t i = first; i < end; ++i) work(i);
  };
  if (count <= 1) return some(0, count);
  // LibTorch's iterator is compiled with OpenMP, which our sources are not: it walks over one byte for each
  // task.
  at::Tensor bytes = at::empty({count}, at::TensorOptions(at::kByte));
  const auto* const begin = bytes.const_data_ptr<std::uint8_t>();
  auto tasks = at::TensorIteratorConfig().add_output(bytes).add_const_input(bytes).build();
  tasks.for_each(
      [&](char** data, const std::int64_t* /*strides*/, std::int64_t size, std::int64_t /*stretches*/) {
        const std::int64_t first = reinterpret_cast<const std::uint8_t*>(data[0]) - begin;
        some(first, first + size);
      },
      /*grain_size=*/1);
}

}  // namespace hooked
