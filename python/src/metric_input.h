#pragma once

// What the Python function of a metric gets.

#include <cstdint>
#include <vector>

#include "hooked/hooked.h"

namespace hooked::python {

/// A MetricInput that owns what it shows, so that Python may keep it.
struct MetricRun {
  explicit MetricRun(const MetricInput& run);

  at::Tensor logits;
  std::vector<std::int64_t> logit_tokens;
  ActivationCache cache;
  at::Tensor columns;
  at::Tensor real;
  at::Tensor tokens;
  std::int64_t first_column;
  std::vector<std::int64_t> rows;
  std::vector<Answers> answers;
};

}  // namespace hooked::python
