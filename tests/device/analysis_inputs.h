#pragma once

#include <ATen/TensorOperators.h>

#include <optional>
#include <utility>
#include <vector>

#include "hooked/analysis/sweep.h"
#include "tests/device/checks.h"

/// Shared by checks of analyses: what is read and patched, and how numbers are compared.
namespace hooked::device_tests {

/// A grid's numbers, with the same number on both devices for NaN.
inline at::Tensor numbers(const Grid& grid) {
  constexpr double kNoNumber = 12345.0;
  return grid.values().nan_to_num(kNoNumber);
}

/// The subject's input in reverse.
inline Input other(const Subject& s) {
  Input other = s.input();
  other.tokens = other.tokens.flip(1);
  return other;
}

/// Everything of a run, on the model's device.
inline ActivationCache cache_of(const Subject& s, const Input& input) {
  return s.model.run_with_cache(input, act::everything, s.options()).cache;
}

/// Patches the other input's values into the subject's, with a metric that has a gradient.
inline SweepOptions paired(const Subject& s, std::optional<SweptSite> site = {},
                           std::vector<SweptAxis> over = {}) {
  return {.site = site,
          .over = std::move(over),
          .from = cache_of(s, other(s)),
          .into = s.input(),
          .metric = logit_difference(1, 2)};
}

inline bool swept_here(const Subject& s) {
  return s.predicts() && s.one_stack() && !s.golden.token_types.defined();
}

}  // namespace hooked::device_tests
