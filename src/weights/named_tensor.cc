#include "weights/named_tensor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include <cassert>
#include <vector>

namespace hooked::weights {
namespace {

std::int64_t dimension(const NamedTensor& weight, Axis axis) {
  const auto found = weight.axes.find(axis);
  assert(found && "the table of weights gives this weight no such axis");
  return *found;
}

}  // namespace

at::Tensor centered(const NamedTensor& weight, Axis over) {
  return weight.values - weight.values.mean(dimension(weight, over), /*keepdim=*/true);
}

at::Tensor scaled(const NamedTensor& weight, Axis along, const at::Tensor& factors) {
  std::vector<std::int64_t> shape(weight.axes.size(), 1);
  shape[static_cast<std::size_t>(dimension(weight, along))] = factors.numel();
  return weight.values * factors.view(shape);
}

at::Tensor weighted_sum(const NamedTensor& weight, Axis over, const at::Tensor& coefficients) {
  return scaled(weight, over, coefficients).sum(dimension(weight, over));
}

}  // namespace hooked::weights
