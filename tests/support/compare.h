#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hooked/hooks/activation_cache.h"

namespace hooked {

/// Activations by name; `logits` and `grad.<name>` may stand among them.
using NamedTensors = std::map<std::string, at::Tensor>;

/// How two sets of activations are compared.
struct Comparison {
  /// Largest allowed max|got - expected| / max(1, max|expected|), in float64.
  double tolerance = 1e-9;
  /// Names or globs of what one side may lack, with the reason. What both have is compared all the same.
  std::map<std::string, std::string> exceptions = {};
  /// [batch, pos], zero on padding, whose rows are left out. Undefined: every row is compared.
  at::Tensor attention_mask = {};
  /// The same of what a decoder reads beside its encoder, whose tokens `attention_mask` is then of. Absent:
  /// there is one stack.
  std::optional<at::Tensor> decoder_mask = {};
};

/// A cache's activations by name.
NamedTensors by_name(const ActivationCache& cache);

/// Whether two sets of activations agree: the same names (but for the exceptions), the same shapes, -inf in
/// the same places, no NaN, and values within the tolerance. The message names the first activations (in
/// firing order) that do not, with both values.
testing::AssertionResult agree(const NamedTensors& got, const NamedTensors& expected,
                               const Comparison& how = {});

}  // namespace hooked
