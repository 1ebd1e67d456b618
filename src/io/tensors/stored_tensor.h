#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace hooked {

/// A tensor that is read in blocks along its outermost dimension, from a file or from memory: a step needs
/// only a small part at a time, however large the tensor is.
struct StoredTensor {
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;
  at::Device device;
  std::int64_t dimension;  ///< that blocks are cut along; 0 for a scalar
  /// Indices `first` to `first + count` of `dimension`: `shape` with `count` there. Never written to. Several
  /// threads may call it at once.
  std::function<at::Tensor(std::int64_t first, std::int64_t count)> read;
};

/// The dimension with the largest stride.
std::int64_t outermost_dimension(at::IntArrayRef sizes, at::IntArrayRef strides);

/// A tensor in memory, which it keeps alive.
StoredTensor in_memory(at::Tensor tensor);

/// `tensor` from index `first` of `dimension` on; a scalar is returned whole.
at::Tensor part_of(const at::Tensor& tensor, std::int64_t dimension, std::int64_t first, std::int64_t count);

/// One block of a tensor.
struct TensorBlock {
  std::int64_t group;  ///< 0 to kBlockGroups - 1
  bool ends_group;     ///< it is the group's last
  std::int64_t first;  ///< where it begins along the dimension that blocks are cut along
  at::Tensor values;
};

/// Calls `use` with each block. Neighbouring blocks form a group: the blocks of one come in order, groups on
/// several threads at once. The grouping depends on the shape alone, so sums by group are the same for any
/// number of threads. Blocks have about `kBlockElements` elements.
void for_each_block(const StoredTensor& stored, const std::function<void(const TensorBlock&)>& use);

/// Writes a stretch of a tensor's dimension that begins at `first` and has the length of `values`. Stretches
/// of one tensor may be written on several threads at once.
using WriteStretch =
    std::function<void(std::int64_t dimension, std::int64_t first, const at::Tensor& values)>;

/// Writes into a tensor of that shape.
WriteStretch writer_of(at::Tensor tensor);

/// Writes all of it.
void copy_blocks(const StoredTensor& stored, const WriteStretch& write);

/// Whether two have the same shape and numbers.
bool same_numbers(const StoredTensor& one, const StoredTensor& other);

/// Small enough for the processor's cache in float64.
inline constexpr std::int64_t kBlockElements = std::int64_t{1} << 17;
/// Enough for the threads of a large machine.
inline constexpr std::int64_t kBlockGroups = 32;

}  // namespace hooked
