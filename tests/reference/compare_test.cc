#include "tests/support/compare.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace hooked::compare_test {
namespace {

constexpr auto kName = "blocks.0.attn.hook_attn_scores";

NamedTensors scores() { return {{kName, at::zeros({1, 1, 2, 2}, at::kDouble)}}; }

NamedTensors scores_with(double value, std::int64_t query = 1, std::int64_t key = 0) {
  NamedTensors changed = scores();
  changed.at(kName)[0][0][query][key].fill_(value);
  return changed;
}

TEST(Agree, EqualActivationsAgree) { EXPECT_TRUE(agree(scores(), scores())); }

TEST(Agree, TheMessageNamesTheActivationThePlaceAndBothValues) {
  const auto result = agree(scores_with(0.25), scores_with(0.5));
  ASSERT_FALSE(result);
  const std::string message = result.message();
  EXPECT_NE(message.find(kName), std::string::npos) << message;
  EXPECT_NE(message.find("[0, 0, 1, 0]: got 0.25, expected 0.5"), std::string::npos) << message;
}

TEST(Agree, TheToleranceIsRelativeToTheLargestExpectedValueButNeverTighterThanItself) {
  EXPECT_TRUE(agree(scores_with(100.0 + 5e-8), scores_with(100.0)));
  EXPECT_FALSE(agree(scores_with(100.0 + 2e-7), scores_with(100.0)));
  EXPECT_TRUE(agree(scores_with(5e-10), scores()));
  EXPECT_FALSE(agree(scores_with(2e-9), scores()));
}

TEST(Agree, InfinitiesMustStandInTheSamePlaces) {
  const double masked = -std::numeric_limits<double>::infinity();
  EXPECT_TRUE(agree(scores_with(masked), scores_with(masked)));
  EXPECT_FALSE(agree(scores_with(masked), scores()));
  EXPECT_FALSE(agree(scores(), scores_with(masked)));
  EXPECT_FALSE(agree(scores_with(masked), scores_with(-masked)));
}

TEST(Agree, NaNNeverAgrees) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(agree(scores_with(nan), scores_with(nan)));
}

TEST(Agree, NamesMustBeTheSameSetExceptTheExceptions) {
  NamedTensors more = scores();
  more["hook_embed"] = at::zeros({1, 2, 3});
  EXPECT_FALSE(agree(more, scores()));
  EXPECT_FALSE(agree(scores(), more));
  EXPECT_TRUE(agree(more, scores(), {.exceptions = {{"hook_embed", "the oracle has no such point"}}}));
  EXPECT_TRUE(agree(scores(), more, {.exceptions = {{"hook_*", "the oracle has no such points"}}}));
  EXPECT_FALSE(agree(scores_with(1.0, /*query=*/1), scores(), {.exceptions = {{"*", "lacked nowhere"}}}))
      << "what both have is compared";
  EXPECT_FALSE(agree(NamedTensors(), NamedTensors())) << "an empty comparison proves nothing";
}

TEST(Agree, ShapesMustBeTheSame) {
  NamedTensors flat = scores();
  flat.at(kName) = flat.at(kName).view({1, 1, 4});
  EXPECT_FALSE(agree(flat, scores()));
}

TEST(Agree, RowsOfPaddingAreLeftOut) {
  const at::Tensor mask = at::tensor({1, 0}).view({1, 2});
  EXPECT_TRUE(agree(scores_with(1.0, /*query=*/1), scores(), {.attention_mask = mask}));
  EXPECT_FALSE(agree(scores_with(1.0, /*query=*/0), scores(), {.attention_mask = mask}));
}

TEST(Agree, EachSideOfAnEncoderDecoderHasItsOwnPadding) {
  const std::vector<std::string> of_encoder = {"hook_embed", "encoder.0.hook_resid_post",
                                               "decoder.0.cross_attn.hook_k"};
  const std::vector<std::string> of_decoder = {"decoder.0.hook_resid_post", "decoder.0.cross_attn.hook_z",
                                               "unembed.hook_in", "logits"};
  const Comparison how{.attention_mask = at::tensor({1, 0, 1}).view({1, 3}),
                       .decoder_mask = at::tensor({0, 1}).view({1, 2})};
  const auto differs_at = [&](const std::string& name, std::int64_t length, std::int64_t position) {
    const NamedTensors zeros = {{name, at::zeros({1, length, 2}, at::kDouble)}};
    NamedTensors changed = {{name, zeros.at(name).clone()}};
    changed.at(name)[0][position].fill_(1.0);
    return !agree(changed, zeros, how);
  };
  for (const std::string& name : of_encoder) {
    EXPECT_TRUE(differs_at(name, 3, 0)) << name;
    EXPECT_FALSE(differs_at(name, 3, 1)) << name;
  }
  for (const std::string& name : of_decoder) {
    EXPECT_FALSE(differs_at(name, 2, 0)) << name;
    EXPECT_TRUE(differs_at(name, 2, 1)) << name;
  }
}

/// Scores of four queries over three keys; two of the keys are not seen.
at::Tensor seen_scores() {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  return at::tensor({1.0, kMasked, 0.25, 2.0, -3.5, kMasked, 0.1, 0.2, 0.3, -0.7, 4.25, -1e-3}, at::kDouble)
      .view({1, 1, 4, 3});
}

/// The third query is padding.
at::Tensor third_query() {
  at::Tensor padding = at::zeros({1, 1, 4, 3}, at::kBool);
  padding.select(2, 2).fill_(true);
  return padding;
}

// The numbers are those of tests/golden/makers/projections.py, which writes what this is compared with.
TEST(Projection, IsWhatTheMakersCompute) {
  const Projection made = projection_of(kName, seen_scores(), third_query());
  EXPECT_EQ(made.shape, (std::vector<std::int64_t>{1, 1, 4, 3}));
  EXPECT_EQ(made.minus_infinities, 2);
  EXPECT_EQ(made.left_out, 3);
  EXPECT_EQ(made.not_finite, 0);
  EXPECT_EQ(made.places, 0xf69ae7d7d201c7f9u);
  EXPECT_EQ(made.largest, 4.25);
  const std::array<double, 4> sums = {-0.7767233909253276, 4.735024133207078, 6.313783258526915,
                                      1.0000782408217828};
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(made.sums[i], sums[i], 1e-14) << i;
}

TEST(Projection, ShowsOneWrongNumber) {
  const Recorded recorded = projection_of(kName, seen_scores());
  EXPECT_TRUE(agrees(kName, seen_scores(), recorded));
  EXPECT_TRUE(agrees(kName, seen_scores() + 1e-10, recorded)) << "within the tolerance";
  for (std::int64_t place = 0; place < seen_scores().numel(); ++place) {
    for (const double wrong : {1e-6, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
      at::Tensor changed = seen_scores();
      at::Tensor number = changed.view(-1)[place];
      number.fill_(number.isinf().item<bool>() ? wrong : number.item<double>() + wrong);
      EXPECT_FALSE(agrees(kName, changed, recorded)) << place << ' ' << wrong;
    }
    at::Tensor masked = seen_scores();
    masked.view(-1)[place].neg_();
    EXPECT_FALSE(agrees(kName, masked, recorded)) << "the sign at " << place;
  }
}

TEST(Projection, DependsOnTheOrderTheShapeAndTheName) {
  const Recorded recorded = projection_of(kName, seen_scores());
  EXPECT_FALSE(agrees(kName, seen_scores().flip(3), recorded));
  EXPECT_FALSE(agrees(kName, seen_scores().view({1, 1, 3, 4}), recorded));
  EXPECT_TRUE(agrees(kName, seen_scores().view({1, 1, 3, 4}), recorded.reshaped({1, 1, 3, 4})));
  const Projection other = projection_of("logits", seen_scores());
  EXPECT_NE(other.sums, projection_of(kName, seen_scores()).sums);
}

TEST(Projection, LeavesTheSamePlacesOutOnBothSides) {
  const Recorded recorded = projection_of(kName, seen_scores(), third_query());
  at::Tensor changed = seen_scores();
  changed.select(2, 2).fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(agrees(kName, changed, recorded, {.left_out = third_query()}));
  EXPECT_FALSE(agrees(kName, seen_scores(), recorded)) << "which compares more than was recorded";
  EXPECT_FALSE(
      agrees(kName, seen_scores(), projection_of(kName, seen_scores()), {.left_out = third_query()}));
  const at::Tensor mask = at::tensor({1, 1, 0, 1}).view({1, 4});
  EXPECT_TRUE(agree({{kName, changed}}, RecordedTensors{{kName, recorded}}, {.attention_mask = mask}));
}

}  // namespace
}  // namespace hooked::compare_test
