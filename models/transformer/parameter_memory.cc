#include "models/transformer/parameter_memory.h"

#include <c10/core/Storage.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

#include "models/transformer/transformer.h"

namespace hooked {
namespace {

using Bytes = std::shared_ptr<const std::byte>;

at::Tensor as_it_lies(const at::Tensor& parameter) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(parameter.dim()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](auto d) { return parameter.stride(d); });
  return parameter.permute(order);
}

}  // namespace

std::vector<Parameter> parameters_as_they_lie(const Transformer& graph) {
  std::vector<Parameter> all;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      all.emplace_back(item.key(), as_it_lies(item.value()));
      assert(all.back().second.is_contiguous() && all.back().second.storage_offset() == 0);
    }
  };
  add(graph.named_parameters());
  add(graph.named_buffers());  // numbers of a checkpoint that nothing trains
  return all;
}

void settle(const at::Tensor& parameter, const Bytes& memory, std::uint64_t offset) {
  auto keep = std::make_unique<Bytes>(memory);
  // Tensors cannot have read-only memory: code that writes to a file's bytes ends the program.
  at::DataPtr bytes(
      const_cast<std::byte*>(memory.get()) + offset, keep.get(),
      [](void* kept) { delete static_cast<Bytes*>(kept); }, at::kCPU);
  static_cast<void>(keep.release());
  c10::Storage storage = parameter.storage();
  storage.set_data_ptr_noswap(std::move(bytes));
}

}  // namespace hooked
