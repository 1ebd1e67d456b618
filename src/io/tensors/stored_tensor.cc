#include "io/tensors/stored_tensor.h"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <utility>

#include "core/parallel.h"

namespace hooked {
namespace {

std::int64_t cut_length(const StoredTensor& stored) {
  return stored.shape.empty() ? 1 : stored.shape[static_cast<std::size_t>(stored.dimension)];
}

std::int64_t block_length(const StoredTensor& stored) {
  std::int64_t slice = 1;  // elements of one index of the dimension
  for (const std::int64_t size : stored.shape) slice *= size;
  slice /= std::max<std::int64_t>(1, cut_length(stored));
  return std::max<std::int64_t>(1, kBlockElements / std::max<std::int64_t>(1, slice));
}

}  // namespace

std::int64_t outermost_dimension(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::int64_t outermost = 0, farthest = -1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1 || strides[i] <= farthest) continue;
    farthest = strides[i];
    outermost = static_cast<std::int64_t>(i);
  }
  return outermost;
}

StoredTensor in_memory(at::Tensor tensor) {
  const std::int64_t dimension = outermost_dimension(tensor.sizes(), tensor.strides());
  return {.shape = tensor.sizes().vec(),
          .dtype = tensor.scalar_type(),
          .device = tensor.device(),
          .dimension = dimension,
          .read = [tensor = std::move(tensor), dimension](std::int64_t first, std::int64_t count) {
            return part_of(tensor, dimension, first, count);
          }};
}

at::Tensor part_of(const at::Tensor& tensor, std::int64_t dimension, std::int64_t first, std::int64_t count) {
  return tensor.dim() == 0 ? tensor : tensor.narrow(dimension, first, count);
}

void for_each_block(const StoredTensor& stored, const std::function<void(const TensorBlock&)>& use) {
  const std::int64_t all = cut_length(stored), step = block_length(stored);
  const std::int64_t blocks = (all + step - 1) / step;
  const std::int64_t groups = std::min(blocks, kBlockGroups);
  for_each_task(groups, [&](std::int64_t group) {
    const std::int64_t end = blocks * (group + 1) / groups;
    for (std::int64_t block = blocks * group / groups; block < end; ++block) {
      const std::int64_t first = block * step;
      use({group, block + 1 == end, first, stored.read(first, std::min(step, all - first))});
    }
  });
}

WriteStretch writer_of(at::Tensor tensor) {
  return [tensor = std::move(tensor)](std::int64_t dimension, std::int64_t first, const at::Tensor& values) {
    const std::int64_t count = values.dim() == 0 ? 1 : values.size(dimension);
    part_of(tensor, dimension, first, count).copy_(values);
  };
}

void copy_blocks(const StoredTensor& stored, const WriteStretch& write) {
  for_each_block(stored,
                 [&](const TensorBlock& block) { write(stored.dimension, block.first, block.values); });
}

bool same_numbers(const StoredTensor& one, const StoredTensor& other) {
  if (one.shape != other.shape || one.dtype != other.dtype) return false;
  const std::int64_t all = cut_length(one), step = block_length(one);
  if (one.dimension != other.dimension) return at::equal(one.read(0, all), other.read(0, cut_length(other)));
  for (std::int64_t first = 0; first < all; first += step) {
    const std::int64_t count = std::min(step, all - first);
    if (!at::equal(one.read(first, count), other.read(first, count))) return false;
  }
  return true;
}

}  // namespace hooked
