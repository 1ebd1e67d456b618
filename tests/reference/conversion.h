#pragma once

#include <ATen/core/Tensor.h>

#include "plain_model.h"
#include "tests/support/goldens.h"

/// Between the plain model's arrays and LibTorch's tensors.
namespace hooked::reference {

at::Tensor to_tensor(const Array& array);

/// int64 [batch, pos].
at::Tensor to_tensor(const std::vector<std::vector<std::int64_t>>& rows);

/// The rows of a [batch, pos] tensor.
std::vector<std::vector<std::int64_t>> to_rows(const at::Tensor& tensor);

/// The plain model's run of what an oracle was given.
PlainRun forward_golden(const ModelConfig& config, const StateDict& weights, const GoldenRun& golden);

/// A plain run's logits and activations as the engine names them.
NamedTensors to_tensors(const PlainRun& run);

}  // namespace hooked::reference
