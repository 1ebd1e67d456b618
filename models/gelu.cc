#include "models/gelu.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/gelu.h>

#include <cstdint>

#include "models/kernels/gelu_tanh.h"
#include "models/plain_kernels.h"

namespace hooked {

void gelu_tanh_into(at::Tensor& out, const at::Tensor& x) {
  const bool ours = x.scalar_type() == at::kFloat && x.device().is_cpu() && x.is_contiguous() &&
                    out.is_contiguous() && !plain_kernels();
  if (!ours) {
    at::gelu_out(out, x, "tanh");
    return;
  }
  // LibTorch's iterator shares the numbers among its threads.
  auto numbers = at::TensorIteratorConfig().add_output(out).add_const_input(x).build();
  numbers.for_each([](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t stretches) {
    for (std::int64_t i = 0; i < stretches; ++i) {
      kernels::gelu_tanh(reinterpret_cast<float*>(data[0] + i * strides[2]),
                         reinterpret_cast<const float*>(data[1] + i * strides[3]), count);
    }
  });
}

}  // namespace hooked
