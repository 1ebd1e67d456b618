#include "models/mlp/expert_rows.h"

#include <ATen/ops/randperm.h>

#include "models/storage/workspace.h"
#include "tests/support/test.h"

namespace hooked::expert_rows_test {
namespace {

// Tokens whose first `real` in a random order have places, cut into stretches of odd sizes.
ExpertRows random_rows(std::int64_t tokens, std::int64_t ranks, std::int64_t d_model, std::int64_t padded,
                       at::ScalarType dtype) {
  const at::Tensor all = at::randperm(tokens * ranks, at::kLong);
  ExpertRows rows{.tokens = tokens, .ranks = ranks, .d_model = d_model, .places = {}, .written = {}};
  rows.places = all.index({all.remainder(tokens) >= padded});
  for (std::int64_t first = 0, size = 0; first < rows.places.size(0); first += size, ++size) {
    size = std::min(size, rows.places.size(0) - first);
    rows.written.push_back(at::randn({size, d_model}).to(dtype));
  }
  return rows;
}

at::Tensor by_loops(const ExpertRows& rows, const at::Tensor& weights) {
  at::Tensor sums = at::zeros({rows.tokens, rows.d_model}, at::kDouble);
  const at::Tensor written = at::cat(rows.written).to(at::kDouble);
  for (std::int64_t row = 0; row < written.size(0); ++row) {
    const auto place = rows.places[row].item<std::int64_t>();
    sums[place % rows.tokens] +=
        written[row] * weights[place % rows.tokens][place / rows.tokens].to(at::kDouble);
  }
  return sums;
}

TEST(ExpertRows, AreAddedUpForEveryTokenAsByLoops) {
  const Workspace workspace;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const double tolerance = dtype == at::kDouble ? 1e-14 : dtype == at::kFloat ? 1e-6 : 8e-3;
    for (const std::int64_t d_model : {1, 31, 128, 130, 500}) {
      for (const std::int64_t padded : {0, 3}) {
        const ExpertRows rows = random_rows(13, 4, d_model, padded, dtype);
        const at::Tensor weights = at::rand({13, 4}).to(dtype), exact = by_loops(rows, weights);
        // Products and partial sums are rounded by the size of all that is added up, which may cancel.
        ExpertRows sizes = rows;
        for (at::Tensor& written : sizes.written) written = written.abs();
        const double largest = std::max(1.0, by_loops(sizes, weights).max().item<double>());
        for (const Workspace* where : {static_cast<const Workspace*>(nullptr), &workspace}) {
          const at::Tensor sums = weighted_sum(rows, weights, Memory{where});
          EXPECT_EQ(sums.scalar_type(), dtype);
          EXPECT_LT((sums.to(at::kDouble) - exact).abs().max().item<double>(), tolerance * largest)
              << dtype << " " << d_model << ", padded " << padded;
        }
      }
    }
  }
}

TEST(ExpertRows, PassGradientsBackAsLibTorchsOperatorsDo) {
  const Workspace workspace;
  for (const std::int64_t padded : {0, 3}) {
    const ExpertRows rows = random_rows(13, 4, 20, padded, at::kFloat);
    const at::Tensor weights = at::rand({13, 4}), asked = at::randn({13, 20});
    std::vector<at::Tensor> passed[2], sums;
    for (const Workspace* where : {static_cast<const Workspace*>(nullptr), &workspace}) {
      ExpertRows leaves = rows;
      for (at::Tensor& written : leaves.written) written = written.clone().set_requires_grad(true);
      const at::Tensor of_weights = weights.clone().set_requires_grad(true);
      sums.push_back(weighted_sum(leaves, of_weights, Memory{where}));
      (sums.back() * asked).sum().backward();
      for (const at::Tensor& written : leaves.written) passed[where != nullptr].push_back(written.grad());
      passed[where != nullptr].push_back(of_weights.grad());
    }
    for (std::size_t i = 0; i < passed[0].size(); ++i) {
      if (passed[0][i].numel() == 0) continue;
      EXPECT_LT((passed[0][i] - passed[1][i]).abs().max().item<double>(), 1e-5) << i;
    }
    EXPECT_TRUE(at::equal(sums[1].detach(), weighted_sum(rows, weights, Memory{&workspace})));
  }
}

TEST(ExpertRows, TokensWithoutAPlaceGetZeros) {
  const Workspace workspace;
  const at::Tensor weights = at::rand({5, 2});
  const ExpertRows none{
      .tokens = 5, .ranks = 2, .d_model = 7, .places = at::zeros({0}, at::kLong), .written = {}};
  EXPECT_TRUE(at::equal(weighted_sum(none, weights, Memory{&workspace}), at::zeros({5, 7})));
  ExpertRows some = random_rows(5, 2, 7, 2, at::kFloat);
  const at::Tensor sums = weighted_sum(some, weights, Memory{&workspace});
  EXPECT_TRUE(at::equal(sums.narrow(0, 0, 2), at::zeros({2, 7})));
}

TEST(ExpertRows, WhatOneExpertWritesWrongReachesItsTokensOnly) {
  const Workspace workspace;
  ExpertRows rows = random_rows(6, 1, 9, 0, at::kFloat);
  rows.written.back().fill_(std::numeric_limits<float>::quiet_NaN());
  const std::int64_t spoilt = rows.written.back().size(0);
  const at::Tensor sums = weighted_sum(rows, at::rand({6, 1}), Memory{&workspace});
  EXPECT_EQ(sums.isnan().any(-1).sum().item<std::int64_t>(), spoilt);
}

}  // namespace
}  // namespace hooked::expert_rows_test
