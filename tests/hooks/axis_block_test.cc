#include "hooked/hooks/axis_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "hooked/core/error.h"

namespace hooked::axis_block_test {
namespace {

using List = std::vector<std::int64_t>;
using Range = AxisIndex::Range;

const AxisContext kContext{Site::resid_pre, "blocks.0.hook_resid_pre", {}};

AxisIndices at_pos(AxisIndex index) {
  AxisIndices indices;
  indices.add(Axis::pos, std::move(index));
  return indices;
}

TEST(ResolvePlaces, AbsolutePlacesOfEveryKind) {
  const AxisPlace place{kContext, Axis::pos, 5};
  EXPECT_EQ(resolve_places(-1, place), (List{4}));
  EXPECT_EQ(resolve_places(Range{1, -1}, place), (List{1, 2, 3}));
  EXPECT_EQ(resolve_places(Range{}, place), (List{0, 1, 2, 3, 4}));
  EXPECT_EQ(resolve_places(List{3, -5, 3}, place), (List{3, 0, 3}));
  const AxisPlace growing{kContext, Axis::pos, 5, 8};
  EXPECT_EQ(resolve_places(-1, growing), (List{4}));
  EXPECT_EQ(resolve_places(Range{6, {}}, growing), (List{6, 7}));
  EXPECT_THROW(resolve_places(8, growing), HookError);
  EXPECT_THROW(resolve_places(5, place), HookError);
  EXPECT_THROW(resolve_places(Range{2, 2}, place), HookError);
}

TEST(TakeBlock, NumberDropsTheAxisListAndRangeKeepIt) {
  const at::Tensor value = at::arange(30, at::kDouble).view({2, 5, 3});
  EXPECT_TRUE(at::equal(take_block(value, at_pos(2), kContext), value.select(1, 2)));
  EXPECT_TRUE(at::equal(take_block(value, at_pos(List{2}), kContext), value.narrow(1, 2, 1)));
  EXPECT_TRUE(at::equal(take_block(value, at_pos(Range{2, 3}), kContext), value.narrow(1, 2, 1)));
  EXPECT_TRUE(at::equal(take_block(value, {}, kContext), value));
}

TEST(TakeBlock, LastIsEachRowsOwn) {
  const at::Tensor value = at::arange(30, at::kDouble).view({2, 5, 3});
  const AxisContext context{Site::resid_pre, "blocks.0.hook_resid_pre", at::tensor({1, 3}, at::kLong)};
  const at::Tensor block = take_block(value, at_pos(AxisIndex::Last{}), context);
  ASSERT_EQ(block.sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_TRUE(at::equal(block[0], value[0][1]));
  EXPECT_TRUE(at::equal(block[1], value[1][3]));
}

TEST(WithBlock, IsDifferentiableInBoth) {
  const at::Tensor value = at::zeros({2, 5, 3}, at::kDouble).requires_grad_(true);
  const at::Tensor block = at::zeros({2, 3}, at::kDouble).requires_grad_(true);
  const at::Tensor made = with_block(value, at_pos(2), kContext, block);
  (made * at::arange(30, at::kDouble).view({2, 5, 3})).sum().backward();
  const at::Tensor weights = at::arange(30, at::kDouble).view({2, 5, 3});
  EXPECT_TRUE(at::equal(block.grad(), weights.select(1, 2)));
  EXPECT_EQ(value.grad().select(1, 2).abs().sum().item<double>(), 0.0);
  EXPECT_TRUE(at::equal(value.grad().select(1, 1), weights.select(1, 1)));
}

// Every mixture of indices on two axes of z: reading gives what was written, and nothing else changes.
TEST(WithBlock, WritesWhatTakeBlockReads) {
  const at::Tensor value = at::arange(3 * 5 * 4 * 2, at::kDouble).view({3, 5, 4, 2});  // batch, pos, head
  const AxisContext context{Site::z, "blocks.0.attn.hook_z", at::tensor({1, 3, 4}, at::kLong)};
  const std::vector<std::optional<AxisIndex>> picks = {std::nullopt,           AxisIndex(1),
                                                       AxisIndex(Range{1, 3}), AxisIndex(List{2}),
                                                       AxisIndex(List{2, 0}),  AxisIndex(List{0, -1})};
  std::vector<std::optional<AxisIndex>> places = picks;
  places.emplace_back(AxisIndex::Last{});
  for (const auto& batch : picks) {
    for (const auto& pos : places) {
      for (const auto& head : picks) {
        AxisIndices indices;
        if (batch) indices.add(Axis::batch, *batch);
        if (pos) indices.add(Axis::pos, *pos);
        if (head) indices.add(Axis::head, *head);
        const at::Tensor read = take_block(value, indices, context);
        const at::Tensor block = -1.0 - at::arange(read.numel(), at::kDouble).view(read.sizes());
        const at::Tensor made = with_block(value, indices, context, block);
        EXPECT_TRUE(at::equal(take_block(made, indices, context), block)) << indices.to_string();
        EXPECT_EQ((made != value).sum().item<std::int64_t>(), read.numel()) << indices.to_string();
        EXPECT_EQ(value.min().item<double>(), 0.0) << "the given value was written to";
      }
    }
  }
}

TEST(WithBlock, CopiesAStridedValue) {
  const at::Tensor value = at::arange(30, at::kDouble).view({3, 5, 2}).permute({2, 1, 0});
  const at::Tensor made = with_block(value, at_pos(0), kContext, at::zeros({2, 3}, at::kDouble));
  EXPECT_TRUE(at::equal(made.narrow(1, 1, 4), value.narrow(1, 1, 4)));
  EXPECT_EQ(made.select(1, 0).abs().sum().item<double>(), 0.0);
  EXPECT_EQ(value[1][0][2].item<double>(), 21.0) << "the given value was written to";
}

}  // namespace
}  // namespace hooked::axis_block_test
