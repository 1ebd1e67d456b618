#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/parallel.h"

namespace hooked {

/// Rows of a tensor as addresses: bytes from one index of each axis but the last to the next.
struct RowAddresses {
  static constexpr std::size_t kMostAxes = 8;

  char* first = nullptr;
  std::array<std::int64_t, kMostAxes> strides{};

  /// The rows of `tensor`, undefined for none, broadcast to `axes` axes.
  RowAddresses(const at::Tensor& tensor, bool written, std::size_t axes) {
    if (!tensor.defined()) return;
    const auto own = static_cast<std::size_t>(tensor.dim() - 1);
    assert(own <= axes && axes <= kMostAxes);
    for (std::size_t axis = 0; axis < own; ++axis) {
      const auto d = static_cast<std::int64_t>(axis);
      strides[axes - own + axis] = tensor.size(d) == 1 ? 0 : tensor.stride(d) * tensor.element_size();
    }
    first =
        static_cast<char*>(written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr()));
  }
};

/// Calls `one` with the addresses of each row of the operands (null for undefined ones); the first `outputs`
/// operands are written. Rows are along the last axes, without gaps; the other axes all broadcast to `x`.
/// Threads share the rows. (LibTorch's iterator does this too, for some microseconds a call.)
template <std::size_t kOperands, class One>
void each_row(const at::Tensor& x, const std::array<const at::Tensor*, kOperands>& operands,
              std::size_t outputs, const One& one) {
  constexpr std::int64_t kNumbersPerThread = 32768;  // as LibTorch shares work
  if (x.numel() == 0) return;
  const auto axes = static_cast<std::size_t>(x.dim() - 1);
  const auto sizes = x.sizes();
  const auto addresses = [&]<std::size_t... kOperand>(std::index_sequence<kOperand...>) {
    return std::array{RowAddresses(*operands[kOperand], kOperand < outputs, axes)...};
  }
  (std::make_index_sequence<kOperands>());
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, RowAddresses::kMostAxes> index{};
    std::array<char*, kOperands> rows;
    for (std::size_t i = 0; i < kOperands; ++i) rows[i] = addresses[i].first;
    const auto advance = [&](std::size_t axis, std::int64_t steps) {
      index[axis] += steps;
      for (std::size_t i = 0; i < kOperands; ++i)
        if (rows[i] != nullptr) rows[i] += steps * addresses[i].strides[axis];
    };
    std::int64_t left = begin;
    for (std::size_t axis = axes; axis-- > 0; left /= sizes[axis]) advance(axis, left % sizes[axis]);
    for (std::int64_t row = begin; row < end; ++row) {
      one(rows);
      for (std::size_t axis = axes; axis-- > 0;) {
        advance(axis, 1);
        if (index[axis] < sizes[axis]) break;
        advance(axis, -index[axis]);
      }
    }
  };
  const std::int64_t size = std::max<std::int64_t>(x.size(-1), 1);
  share_stretches(x.numel() / size, std::max<std::int64_t>(1, kNumbersPerThread / size), work);
}

}  // namespace hooked
