// A matrix with a low-rank product added to it, against LibTorch's operators over whole matrices.
#include "loading/adapter/low_rank_weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace hooked::low_rank_weight_test {
namespace {

/// A tensor as a checkpoint has it, in order or read whole.
SourceTensor source(const at::Tensor& tensor, bool in_order = true) {
  SourceTensor made{.shape = tensor.sizes().vec(),
                    .dtype = tensor.scalar_type(),
                    .dtype_name = "",
                    .where = "model.safetensors",
                    .read = [tensor] { return tensor; },
                    .read_elements = nullptr};
  if (in_order) {
    made.read_elements = [tensor](std::int64_t first, const at::Tensor& into) {
      into.copy_(tensor.reshape({-1}).narrow(0, first, into.numel()).view(into.sizes()));
    };
  }
  return made;
}

struct Case {
  bool turned, dora;
};

at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype = at::kDouble) {
  return at::randn(sizes, at::TensorOptions(at::kDouble)).to(dtype);
}

class LowRankWeight : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::int64_t kIn = 7, kOut = 11, kRank = 3;
  const bool turned_ = GetParam().turned, dora_ = GetParam().dora;
  const at::Tensor w_ =
      random(turned_ ? at::IntArrayRef{kIn, kOut} : at::IntArrayRef{kOut, kIn}, at::kBFloat16);
  const at::Tensor a_ = random({kRank, kIn}, at::kFloat), b_ = random({kOut, kRank}, at::kHalf);
  const at::Tensor length_ = at::rand({kOut}, at::TensorOptions(at::kDouble)) + 0.5;

  at::Tensor expected() const {
    const at::Tensor product = 1.75 * b_.to(at::kDouble).matmul(a_.to(at::kDouble));
    const at::Tensor whole = w_.to(at::kDouble) + (turned_ ? product.t() : product);
    if (!dora_) return whole;
    const std::int64_t inputs = turned_ ? 0 : 1;
    const at::Tensor factor = length_ / at::linalg_vector_norm(whole, 2, inputs);
    return whole * factor.unsqueeze(inputs);
  }

  SourceTensor changed(at::ScalarType dtype, bool in_order = true) const {
    LowRankChange change{
        .a = source(a_), .b = source(b_), .magnitude = std::nullopt, .scale = 1.75, .turned = turned_};
    if (dora_) change.magnitude = source(length_);
    return changed_weight(source(w_, in_order), change, dtype);
  }
};

TEST_P(LowRankWeight, IsWPlusScaleTimesBA) {
  const SourceTensor made = changed(at::kDouble);
  EXPECT_EQ(made.shape, w_.sizes().vec());
  EXPECT_EQ(made.meta().scalar_type(), at::kDouble);
  EXPECT_LT((made.read() - expected()).abs().max().item<double>(), 1e-13);
  EXPECT_TRUE(at::equal(made.read(), changed(at::kDouble, /*in_order=*/false).read()));
}

// To the last bit, however often and in whatever order it is read.
TEST_P(LowRankWeight, AnyRunOfItIsThatOfTheWhole) {
  const SourceTensor made = changed(at::kDouble);
  const at::Tensor whole = made.read().reshape({-1});
  for (std::int64_t first = 0; first <= whole.numel(); ++first) {
    for (const std::int64_t count : {0, 1, 2, 6, 7, 8, 22, 77}) {
      if (first + count > whole.numel()) continue;
      const at::Tensor run = at::empty({count}, at::kDouble);
      made.read_elements(first, run);
      ASSERT_TRUE(at::equal(run, whole.narrow(0, first, count))) << first << ' ' << count;
    }
  }
}

TEST_P(LowRankWeight, IsRoundedOnce) {
  EXPECT_TRUE(at::equal(changed(at::kFloat).read(), changed(at::kDouble).read().to(at::kFloat)));
}

INSTANTIATE_TEST_SUITE_P(Forms, LowRankWeight,
                         testing::Values(Case{false, false}, Case{true, false}, Case{false, true},
                                         Case{true, true}),
                         [](const auto& row) {
                           return std::string(row.param.turned ? "Turned" : "Straight") +
                                  (row.param.dora ? "WithLengths" : "");
                         });

TEST(ChangedBias, GetsTheScaledOther) {
  const at::Tensor base = random({5}, at::kHalf), added = random({5}, at::kFloat);
  const SourceTensor made = changed_bias(source(base), source(added), 0.5, at::kDouble);
  EXPECT_TRUE(at::equal(made.read(), base.to(at::kDouble) + added.to(at::kDouble) * 0.5));
  const at::Tensor run = at::empty({2}, at::kDouble);
  made.read_elements(3, run);
  EXPECT_TRUE(at::equal(run, made.read().narrow(0, 3, 2)));
}

}  // namespace
}  // namespace hooked::low_rank_weight_test
