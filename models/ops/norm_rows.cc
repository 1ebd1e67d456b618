#include "models/ops/norm_rows.h"

#include <array>
#include <cstdint>

#include "models/kernels/kernels.h"
#include "models/storage/each_row.h"

namespace hooked {
namespace {

bool rows_without_gaps(const at::Tensor& x) { return x.dim() > 0 && x.numel() > 0 && x.stride(-1) == 1; }

kernels::NormRow row_of(const at::Tensor& x, const RowNorm& how) {
  return {.size = x.size(-1),
          .eps = static_cast<float>(how.eps),
          .centred = how.centred,
          .weight_offset = how.offset ? 1.0f : 0.0f};
}

template <class Number>
void norm_rows(const NormedRows& out, const at::Tensor& x, const RowNorm& how) {
  each_row<6>(x, {&out.weighted, &out.normalized, &out.scale, &x, &how.weight, &how.bias}, 3,
              [row = row_of(x, how),
               norm = kernels::own_kernels()->rows<Number>().norm](const std::array<char*, 6>& rows) {
                norm(row, {.in = reinterpret_cast<const Number*>(rows[3]),
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
              [row = row_of(x, how),
               back = kernels::own_kernels()->rows<Number>().norm_back](const std::array<char*, 4>& rows) {
                back(row, {.in = reinterpret_cast<const Number*>(rows[1]),
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
         alike(how.weight) && alike(how.bias) && kernels::own_kernels() != nullptr;
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
