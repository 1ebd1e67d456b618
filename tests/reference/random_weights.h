#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/core/state_dict.h"

namespace hooked::reference {

/// A weight's native name and its shape.
using NamedShape = std::pair<std::string, std::vector<std::int64_t>>;

/// Every weight that a model of this config has in a native file, in the order of the forward pass.
std::vector<NamedShape> weight_shapes(const ModelConfig& config);

/// Random weights of every name in `weight_shapes`, norms (around one) and biases too. The values are float32
/// numbers, so both dtypes hold the same weights; equal seeds give equal weights.
StateDict random_weights(const ModelConfig& config, std::uint64_t seed, at::ScalarType dtype = at::kDouble);

/// Random tokens [batch][pos].
std::vector<std::vector<std::int64_t>> random_tokens(const ModelConfig& config, std::int64_t batch,
                                                     std::int64_t length, std::uint64_t seed);

}  // namespace hooked::reference
