#include "conversion.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>

namespace hooked::reference {

at::Tensor to_tensor(const Array& array) {
  at::Tensor tensor = at::empty(array.shape, at::TensorOptions().dtype(at::kDouble));
  std::ranges::copy(array.values, tensor.data_ptr<double>());
  return tensor;
}

at::Tensor to_tensor(const std::vector<std::vector<std::int64_t>>& rows) {
  const auto batch = static_cast<std::int64_t>(rows.size());
  const auto length = static_cast<std::int64_t>(rows.at(0).size());
  at::Tensor tensor = at::empty({batch, length}, at::TensorOptions().dtype(at::kLong));
  auto* out = tensor.data_ptr<std::int64_t>();
  for (const auto& row : rows) out = std::ranges::copy(row, out).out;
  return tensor;
}

std::vector<std::vector<std::int64_t>> to_rows(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.to(at::kCPU, at::kLong).contiguous();
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t b = 0; b < dense.size(0); ++b) {
    const auto* row = dense.data_ptr<std::int64_t>() + b * dense.size(1);
    rows.emplace_back(row, row + dense.size(1));
  }
  return rows;
}

PlainRun forward_golden(const ModelConfig& config, const StateDict& weights, const GoldenRun& golden) {
  const auto rows = [](const at::Tensor& given) {
    return given.defined() ? std::optional(to_rows(given)) : std::nullopt;
  };
  return forward(config, weights, to_rows(golden.tokens),
                 {.mask = rows(golden.attention_mask),
                  .types = rows(golden.token_types),
                  .decoder = rows(golden.decoder_tokens)});
}

NamedTensors to_tensors(const PlainRun& run) {
  NamedTensors tensors;
  for (const auto& [name, array] : run.activations) tensors[name] = to_tensor(array);
  if (!run.residual.values.empty()) tensors["residual"] = to_tensor(run.residual);
  if (!run.logits.values.empty()) tensors["logits"] = to_tensor(run.logits);
  return tensors;
}

}  // namespace hooked::reference
