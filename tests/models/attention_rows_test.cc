#include <ATen/ops/linspace.h>
#include <ATen/ops/tanh.h>

#include "tests/models/kernels_in_cpp/tables.h"
#include "tests/support/test.h"

namespace hooked::attention_rows_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Rows of a contiguous matrix of all columns, to which tests add features.
kernels::AttentionRows rows_of(const at::Tensor& scores) {
  return {.scores = scores.mutable_data_ptr<float>(),
          .stride = scores.stride(0),
          .rows = scores.size(0),
          .first_key = 0,
          .end_key = scores.size(1),
          .first = nullptr,
          .end = nullptr,
          .real = nullptr,
          .bias = nullptr,
          .bias_starts = nullptr,
          .soft_cap = 0.0f,
          .sink = nullptr,
          .kept_scores = nullptr,
          .kept_pattern = nullptr,
          .columns = scores.size(1)};
}

class AttentionRows : public testing::TestWithParam<kernels::NamedKernels> {
 protected:
  static void attend_rows(const kernels::AttentionRows& rows) { GetParam().kernels.attend_rows(rows); }
};

TEST_P(AttentionRows, AreTheSoftmax) {
  for (const std::int64_t columns : {1, 15, 16, 17, 31, 100, 1000}) {
    const at::Tensor scores = at::randn({3, columns}) * 10.0;
    const at::Tensor exact = at::softmax(scores.to(at::kDouble), -1);
    attend_rows(rows_of(scores));
    EXPECT_LT(((scores.to(at::kDouble) - exact).abs() / (exact + 1e-12)).max().item<double>(), 1e-5)
        << columns;
  }
}

TEST_P(AttentionRows, CapIsExactToFloatPrecision) {
  const at::Tensor x =
      at::cat({at::linspace(-1000, 1000, 20'001), at::linspace(-0.1, 0.1, 999)}).unsqueeze(0);
  const at::Tensor scores = x.clone(), kept = at::zeros(x.sizes());
  kernels::AttentionRows rows = rows_of(scores);
  rows.soft_cap = 30.0f;
  rows.kept_scores = kept.mutable_data_ptr<float>();
  attend_rows(rows);
  const at::Tensor exact = 30.0 * at::tanh(x.to(at::kDouble) / 30.0);
  EXPECT_LT(((kept.to(at::kDouble) - exact).abs() / exact.abs().clamp_min(1e-6)).max().item<double>(), 1e-6);
}

TEST_P(AttentionRows, WhatIsKeptCoversTheColumnsThatAreNotHere) {
  const at::Tensor scores = at::zeros({2, 4}), all = at::full({2, 9}, 7.0), pattern = at::full({2, 9}, 7.0);
  const std::vector<std::int64_t> first = {0, 4}, end = {5, 7};
  kernels::AttentionRows rows = rows_of(scores);
  rows.first_key = 3;
  rows.end_key = 7;
  rows.first = first.data();
  rows.end = end.data();
  rows.kept_scores = all.mutable_data_ptr<float>();
  rows.kept_pattern = pattern.mutable_data_ptr<float>();
  rows.columns = 9;
  attend_rows(rows);
  for (std::int64_t row = 0; row < 2; ++row) {
    const std::int64_t begin = row == 0 ? 3 : 4, stop = row == 0 ? 5 : 7;
    for (std::int64_t column = 0; column < 9; ++column) {
      const bool seen = column >= begin && column < stop;
      EXPECT_EQ(all[row][column].item<float>(), seen ? 0.0f : -kInfinity) << row << " " << column;
      EXPECT_FLOAT_EQ(pattern[row][column].item<float>(),
                      seen ? 1.0f / static_cast<float>(stop - begin) : 0.0f)
          << row << " " << column;
    }
  }
}

TEST_P(AttentionRows, RowsThatSeeNothingAreZeroAndSinksTakeTheirShare) {
  const std::vector<std::int64_t> nothing = {2, 2, 2};
  const at::Tensor unseen = at::ones({3, 20});
  kernels::AttentionRows rows = rows_of(unseen);
  rows.first = rows.end = nothing.data();
  attend_rows(rows);
  EXPECT_EQ(unseen.abs().max().item<float>(), 0.0f);

  const at::Tensor padding = at::ones({3, 20}), real = at::zeros({20}, at::kBool);
  rows = rows_of(padding);
  rows.real = real.const_data_ptr<bool>();
  attend_rows(rows);
  EXPECT_EQ(padding.abs().max().item<float>(), 0.0f);

  const at::Tensor beside = at::zeros({1, 3});
  const float sink = 0.0f;
  rows = rows_of(beside);
  rows.sink = &sink;
  attend_rows(rows);
  EXPECT_FLOAT_EQ(beside.sum().item<float>(), 0.75f);
}

TEST_P(AttentionRows, NumbersThatAreNotFiniteStayVisible) {
  const at::Tensor real = at::ones({40}, at::kBool);
  for (const bool padded : {false, true}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      const at::Tensor scores = at::randn({1, 40});
      scores[0][21] = bad;
      kernels::AttentionRows rows = rows_of(scores);
      rows.real = padded ? real.const_data_ptr<bool>() : nullptr;
      attend_rows(rows);
      EXPECT_TRUE(scores.isnan().any().item<bool>()) << bad;
    }
  }
  const at::Tensor lost = at::full({1, 40}, std::numeric_limits<float>::quiet_NaN());
  kernels::AttentionRows rows = rows_of(lost);
  rows.real = real.const_data_ptr<bool>();
  attend_rows(rows);
  EXPECT_TRUE(lost.isnan().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionRows, testing::ValuesIn(kernels::all_tables()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hooked::attention_rows_test
