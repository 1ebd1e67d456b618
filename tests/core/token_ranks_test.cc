#include "core/token_ranks.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

namespace hooked::token_ranks_test {
namespace {

TEST(TokenRanks, CountsLargerLogits) {
  const at::Tensor all = at::tensor({1.0, 5.0, -2.0, 5.0, 0.0, 9.0, 9.0, NAN, 1.0, 1.0}).view({2, 5});
  const at::Tensor chosen = at::stack({all.select(1, 1), all.select(1, 2)}, 1);
  const at::Tensor ranks = token_ranks(chosen, all);
  EXPECT_TRUE(at::equal(ranks[0], at::tensor({0.0, 4.0}).to(ranks.scalar_type())));
  EXPECT_TRUE(ranks[1].isnan().all().item<bool>()) << "one of the row's logits is NaN";
}

}  // namespace
}  // namespace hooked::token_ranks_test
