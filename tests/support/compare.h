#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "hooked/hooks/activation_cache.h"
#include "tests/support/recorded.h"

namespace hooked {

/// How two sets of activations are compared.
struct Comparison {
  /// Largest allowed max|got - expected| / max(1, max|expected|), in float64.
  double tolerance = 1e-9;
  /// Names or globs of what one side may lack, with the reason. If both have it, it is compared anyway.
  std::map<std::string, std::string> exceptions = {};
  /// [batch, pos], zero on padding, whose rows are left out. Undefined: every row is compared.
  at::Tensor attention_mask = {};
  /// The same for what a decoder reads with its encoder; `attention_mask` is then the encoder's. Absent:
  /// the model has one stack.
  std::optional<at::Tensor> decoder_mask = {};
};

/// A cache's activations by name.
NamedTensors by_name(const ActivationCache& cache);

/// Whether two sets of activations agree: the same names (but for the exceptions), the same shapes, -inf in
/// the same places, no NaN, and values within the tolerance. If a projection was recorded, its sums must be
/// equal within the tolerance times the root of their length, and the largest number within the tolerance.
/// The message names the first activations (in firing order) that do not agree, with both values.
testing::AssertionResult agree(const NamedTensors& got, const RecordedTensors& expected,
                               const Comparison& how = {});
testing::AssertionResult agree(const NamedTensors& got, const NamedTensors& expected,
                               const Comparison& how = {});

/// How one tensor is compared.
struct TensorComparison {
  double tolerance = 1e-9;  ///< largest allowed max|got - expected| / max(least, max|expected|), in float64
  double least = 1.0;       ///< see `tolerance`
  at::Tensor left_out =
      {};  ///< bool, of the tensor's shape: true where nothing is compared; may be undefined
};

/// The same for one tensor; `how` says which places are left out.
testing::AssertionResult agrees(const std::string& name, const at::Tensor& got, const Recorded& expected,
                                const TensorComparison& how = {});

}  // namespace hooked
