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

template <class Number>
void norm_rows(const NormedRows& out, const at::Tensor& x, const RowNorm& how) {
  const kernels::NormRow row{.size = x.size(-1),
                             .eps = static_cast<float>(how.eps),
                             .centred = how.centred,
                             .weight_offset = how.offset ? 1.0f : 0.0f};
  // LibTorch's iterator walks over the first number of each row, and shares rows among its threads.
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  const at::Tensor nobody;
  std::array<const at::Tensor*, 6> operands{&out.weighted, &out.normalized, &out.scale, &x,
                                            &how.weight,   &how.bias};
  std::array<int, 6> places{};  // in the iterator; -1 for those that are nobody's
  int place = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    places[i] = operands[i]->defined() ? place++ : -1;
    if (!operands[i]->defined()) continue;
    if (i < 3) {
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
            const auto at = [&](std::size_t operand) -> char* {
              const int p = places[operand];
              return p < 0 ? nullptr : data[p] + inner * strides[p] + outer * strides[n + p];
            };
            kernels::norm_row(row, {.in = reinterpret_cast<const Number*>(at(3)),
                                    .weight = reinterpret_cast<const Number*>(at(4)),
                                    .bias = reinterpret_cast<const Number*>(at(5)),
                                    .weighted = reinterpret_cast<Number*>(at(0)),
                                    .normalized = reinterpret_cast<Number*>(at(1)),
                                    .scale = reinterpret_cast<float*>(at(2))});
          }
        }
      },
      std::max<std::int64_t>(1, kNumbersPerThread / row.size));
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

}  // namespace hooked
