#pragma once

// What most tests need: GoogleTest, tensors and the operators of LibTorch that tests call, the errors, and
// how results and errors are compared. Headers of models for tests bring it along.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "tests/support/relative_difference.h"
#include "tests/support/thrown_by.h"

namespace hooked {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Names the cases of a test that is instantiated by parameters with a `name`.
inline constexpr auto named = [](const auto& info) { return std::string(info.param.name); };

/// max|x|; NaN if one is NaN.
inline double largest(const at::Tensor& x) { return x.numel() == 0 ? 0.0 : x.abs().max().item<double>(); }

/// max|x| with NaN counted as 0, for results in which NaN means that there is no number.
inline double largest_number(const at::Tensor& x) { return largest(x.nan_to_num(0.0)); }

/// Checks that each use of a moved-from object says what it was: `noun`.
inline void expect_moved_from(const std::string& noun, const std::vector<std::function<void()>>& uses) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(text_thrown_by<Error>(uses[i]).find("[" + noun + "] this " + noun + " was moved from; "), 0u);
  }
}

}  // namespace hooked
