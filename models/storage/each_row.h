#pragma once

#include <ATen/TensorIterator.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace hooked {

/// Calls `one` with the addresses of each row of the operands (null for undefined ones); the first `outputs`
/// operands are written. Rows are along the last axes, without gaps; the other axes all broadcast to `x`.
/// LibTorch's threads share the rows.
template <std::size_t kOperands, class One>
void each_row(const at::Tensor& x, const std::array<const at::Tensor*, kOperands>& operands,
              std::size_t outputs, const One& one) {
  constexpr std::int64_t kNumbersPerThread = 32768;  // as LibTorch shares work
  // LibTorch's iterator walks over the first number of each row.
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  const auto rows = x.sizes().slice(0, static_cast<std::size_t>(x.dim()) - 1);
  std::array<int, kOperands> places{};  // in the iterator; -1 for undefined operands
  int place = 0;
  for (std::size_t i = 0; i < kOperands; ++i) {
    places[i] = operands[i]->defined() ? place++ : -1;
    if (!operands[i]->defined()) continue;
    if (i < outputs) {
      config.add_owned_output(operands[i]->select(-1, 0));
    } else {
      config.add_owned_const_input(operands[i]->select(-1, 0).expand(rows));
    }
  }
  const int n = place;
  auto iterator = config.build();
  iterator.for_each(
      [&](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t stretches) {
        for (std::int64_t outer = 0; outer < stretches; ++outer) {
          for (std::int64_t inner = 0; inner < count; ++inner) {
            std::array<char*, kOperands> of_operands;
            for (std::size_t i = 0; i < kOperands; ++i) {
              const int p = places[i];
              of_operands[i] = p < 0 ? nullptr : data[p] + inner * strides[p] + outer * strides[n + p];
            }
            one(of_operands);
          }
        }
      },
      std::max<std::int64_t>(1, kNumbersPerThread / x.size(-1)));
}

}  // namespace hooked
