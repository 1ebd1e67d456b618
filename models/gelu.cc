#include "models/gelu.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>

#include <cstdint>

#include "models/kernels/gelu_tanh.h"
#include "models/plain_kernels.h"

namespace hooked {

namespace {

bool ours(const at::Tensor& out, const at::Tensor& x) {
  return x.device().is_cpu() && x.is_contiguous() && out.is_contiguous() && !plain_kernels();
}

// LibTorch's iterator shares the numbers among its threads.
template <class Number>
void gelu_of(at::Tensor& out, const at::Tensor& x) {
  auto numbers = at::TensorIteratorConfig().add_output(out).add_const_input(x).build();
  numbers.for_each([](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t stretches) {
    for (std::int64_t i = 0; i < stretches; ++i) {
      kernels::gelu_tanh(reinterpret_cast<Number*>(data[0] + i * strides[2]),
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
  numbers.for_each([](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t stretches) {
    for (std::int64_t i = 0; i < stretches; ++i) {
      kernels::gelu_tanh_back(reinterpret_cast<float*>(data[0] + i * strides[3]),
                              reinterpret_cast<const float*>(data[1] + i * strides[4]),
                              reinterpret_cast<const float*>(data[2] + i * strides[5]), count);
    }
  });
}

}  // namespace hooked
