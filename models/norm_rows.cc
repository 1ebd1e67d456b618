#include "models/norm_rows.h"

#include <ATen/TensorIterator.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "models/kernels/norm_row.h"
#include "models/plain_kernels.h"

namespace hooked {
namespace {

constexpr std::int64_t kNumbersPerThread = 32768;  // as LibTorch shares work

bool rows_without_gaps(const at::Tensor& x) { return x.dim() > 0 && x.numel() > 0 && x.stride(-1) == 1; }

// Calls `one` with each row of the operands, of which the first `outputs` are written; null for undefined
// ones. All broadcast to `x` but for their last axes, along which rows lie.
template <std::size_t kOperands, class One>
void each_row(const at::Tensor& x, const std::array<const at::Tensor*, kOperands>& operands,
              std::size_t outputs, const One& one) {
  // LibTorch's iterator walks over the first number of each row, and shares rows among its threads.
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  std::array<int, kOperands> places{};  // in the iterator; -1 for those that are nobody's
  int place = 0;
  for (std::size_t i = 0; i < kOperands; ++i) {
    places[i] = operands[i]->defined() ? place++ : -1;
    if (!operands[i]->defined()) continue;
    if (i < outputs) {
      config.add_owned_output(operands[i]->select(-1, 0));
    } else {
      config.add_owned_const_input(operands[i]->expand({x.sizes()}).select(-1, 0));
    }
  }
  const int n = place;
  auto iterator = config.build();
  iterator.for_each(
      [&](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t stretches) {
        for (std::int64_t outer = 0; outer < stretches; ++outer) {
          for (std::int64_t inner = 0; inner < count; ++inner) {
            std::array<char*, kOperands> rows;
            for (std::size_t i = 0; i < kOperands; ++i) {
              const int p = places[i];
              rows[i] = p < 0 ? nullptr : data[p] + inner * strides[p] + outer * strides[n + p];
            }
            one(rows);
          }
        }
      },
      std::max<std::int64_t>(1, kNumbersPerThread / x.size(-1)));
}

kernels::NormRow row_of(const at::Tensor& x, const RowNorm& how) {
  return {.size = x.size(-1),
          .eps = static_cast<float>(how.eps),
          .centred = how.centred,
          .weight_offset = how.offset ? 1.0f : 0.0f};
}

template <class Number>
void norm_rows(const NormedRows& out, const at::Tensor& x, const RowNorm& how) {
  each_row<6>(x, {&out.weighted, &out.normalized, &out.scale, &x, &how.weight, &how.bias}, 3,
              [row = row_of(x, how)](const std::array<char*, 6>& rows) {
                kernels::norm_row(row, {.in = reinterpret_cast<const Number*>(rows[3]),
                                        .weight = reinterpret_cast<const Number*>(rows[4]),
                                        .bias = reinterpret_cast<const Number*>(rows[5]),
                                        .weighted = reinterpret_cast<Number*>(rows[0]),
                                        .normalized = reinterpret_cast<Number*>(rows[1]),
                                        .scale = reinterpret_cast<float*>(rows[2])});
              });
}

template <class Number>
void norm_rows_back(const at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x,
                    const RowNorm& how) {
  each_row<4>(x, {&out, &x, &how.weight, &gradient}, 1,
              [row = row_of(x, how)](const std::array<char*, 4>& rows) {
                kernels::norm_row_back(row, {.in = reinterpret_cast<const Number*>(rows[1]),
                                             .weight = reinterpret_cast<const Number*>(rows[2]),
                                             .gradient = reinterpret_cast<const Number*>(rows[3]),
                                             .out = reinterpret_cast<Number*>(rows[0])});
              });
}

}  // namespace

bool can_norm_rows(const at::Tensor& x, const RowNorm& how) {
  const auto dtype = x.scalar_type();
  const auto alike = [&](const at::Tensor& t) {
    return !t.defined() || (t.scalar_type() == dtype && t.stride(-1) == 1);
  };
  return (dtype == at::kFloat || dtype == at::kBFloat16) && x.device().is_cpu() && rows_without_gaps(x) &&
         alike(how.weight) && alike(how.bias) && !plain_kernels();
}

void norm_rows_into(const NormedRows& out, const at::Tensor& x, const RowNorm& how) {
  if (x.scalar_type() == at::kFloat) return norm_rows<float>(out, x, how);
  norm_rows<std::uint16_t>(out, x, how);
}

void norm_rows_back_into(const at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x,
                         const RowNorm& how) {
  if (x.scalar_type() == at::kFloat) return norm_rows_back<float>(out, gradient, x, how);
  norm_rows_back<std::uint16_t>(out, gradient, x, how);
}

}  // namespace hooked
