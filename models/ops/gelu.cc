#include "models/ops/gelu.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>

#include <cstdint>

#include "models/kernels/kernels.h"

namespace hooked {

namespace {

bool ours(const at::Tensor& out, const at::Tensor& x) {
  return x.device().is_cpu() && x.is_contiguous() && out.is_contiguous() && kernels::own_kernels() != nullptr;
}

// LibTorch's iterator shares the numbers among its threads.
template <class Number>
void gelu_of(at::Tensor& out, const at::Tensor& x) {
  auto numbers = at::TensorIteratorConfig().add_output(out).add_const_input(x).build();
  const auto gelu = kernels::own_kernels()->rows<Number>().gelu_tanh;
  numbers.for_each(
      [gelu](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t stretches) {
        for (std::int64_t i = 0; i < stretches; ++i) {
          gelu(reinterpret_cast<Number*>(data[0] + i * strides[2]),
               reinterpret_cast<const Number*>(data[1] + i * strides[3]), count);
        }
      });
}

}  // namespace

void gelu_tanh_into(at::Tensor& out, const at::Tensor& x) {
  if (ours(out, x) && x.scalar_type() == at::kFloat) return gelu_of<float>(out, x);
  if (ours(out, x) && x.scalar_type() == at::kBFloat16) return gelu_of<std::uint16_t>(out, x);
  at::gelu_out(out, x, "tanh");
}

void gelu_tanh_back_into(at::Tensor& out, const at::Tensor& gradient, const at::Tensor& x) {
  if (!ours(out, x) || x.scalar_type() != at::kFloat || !gradient.is_contiguous()) {
    at::gelu_backward_out(out, gradient, x, "tanh");
    return;
  }
  auto numbers =
      at::TensorIteratorConfig().add_output(out).add_const_input(gradient).add_const_input(x).build();
  const auto back = kernels::own_kernels()->gelu_tanh_back;
  numbers.for_each(
      [back](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t stretches) {
        for (std::int64_t i = 0; i < stretches; ++i) {
          back(reinterpret_cast<float*>(data[0] + i * strides[3]),
               reinterpret_cast<const float*>(data[1] + i * strides[4]),
               reinterpret_cast<const float*>(data[2] + i * strides[5]), count);
        }
      });
}

}  // namespace hooked
