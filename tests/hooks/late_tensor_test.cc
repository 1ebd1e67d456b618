#include "hooked/hooks/late_tensor.h"

#include <ATen/ops/from_blob.h>

#include <memory>
#include <stdexcept>

#include "hooks/recipe.h"
#include "tests/hooks/watching.h"

namespace hooked::late_tensor_test {
namespace {

using List = std::vector<std::int64_t>;

const ActivationName kName = ActivationName::parse("blocks.0.attn.hook_pattern");

// A pattern [2, 4, 3, 3] whose numbers are products of those of queries [batch, query, head] and keys [row,
// kv_head, key], two heads sharing each; and how much of it has been computed.
struct Made {
  Recipe recipe() {
    return {kName,
            {2, 4, 3, 3},
            queries.options(),
            {{"the queries", queries, {Axis::batch, Axis::query, Axis::head}},
             {"the keys", keys, {Axis::batch, Axis::kv_head, Axis::one}},
             {"nothing", {}, {}}},
            [numbers = numbers](const std::vector<at::Tensor>& of) {
              EXPECT_FALSE(of[2].defined());
              const std::int64_t group = of[0].size(2) / of[1].size(1);
              const at::Tensor by_head = of[1].repeat_interleave(group, 1);
              const at::Tensor made = of[0].transpose(1, 2).unsqueeze(-1) * by_head.unsqueeze(2);
              *numbers += made.numel();
              return made;
            }};
  }

  at::Tensor queries = at::arange(24, at::kDouble).view({2, 3, 4});
  at::Tensor keys = at::arange(1, 7, at::kDouble).view({1, 2, 3});
  at::Tensor expected = queries.transpose(1, 2).unsqueeze(-1) * keys.repeat_interleave(2, 1).unsqueeze(2);
  std::shared_ptr<std::int64_t> numbers = std::make_shared<std::int64_t>(0);
};

AxisIndices at_axis(Axis axis, const AxisIndex& index) {
  AxisIndices indices;
  indices.add(axis, index);
  return indices;
}

TEST(LateTensor, IsMadeOnceAndItsFormIsKnownBefore) {
  Made made;
  const LateTensor late(made.recipe());
  const LateTensor copy = late;
  EXPECT_FALSE(late.made());
  EXPECT_EQ(late.sizes(), (List{2, 4, 3, 3}));
  EXPECT_EQ(late.scalar_type(), at::kDouble);
  EXPECT_EQ(late.nbytes(), 72 * sizeof(double));
  EXPECT_EQ(late.held().size(), 2U);
  EXPECT_EQ(*made.numbers, 0);
  EXPECT_TRUE(at::equal(late.value(kName), made.expected));
  EXPECT_TRUE(copy.made()) << "copies share it";
  EXPECT_TRUE(copy.value(kName).is_same(late.value(kName)));
  EXPECT_EQ(*made.numbers, 72);
  EXPECT_TRUE(late.held().front().is_same(late.value(kName))) << "what it was made of is freed";
}

TEST(LateTensor, BlocksMakeThemselvesOnly) {
  struct Case {
    AxisIndices indices;
    std::int64_t numbers;
  };
  for (const auto& [indices, numbers] :
       {Case{at_axis(Axis::batch, 1), 36}, Case{at_axis(Axis::head, 3), 18},
        Case{at_axis(Axis::head, List{3, 0, 1}), 54}, Case{at_axis(Axis::query, -1), 24},
        Case{at_axis(Axis::pos, AxisIndex::Range{1, 3}), 48}, Case{at_axis(Axis::pos, AxisIndex::Last{}), 24},
        Case{at_axis(Axis::key, 1), 72}}) {
    Made made;
    const LateTensor late(made.recipe());
    const AxisContext context{kName.site, "here", at::tensor({2, 0}, at::kLong)};
    EXPECT_TRUE(at::equal(late.block(kName, indices, context), take_block(made.expected, indices, context)))
        << indices.to_string();
    EXPECT_EQ(*made.numbers, numbers) << indices.to_string();
    EXPECT_FALSE(late.made());
  }
}

TEST(LateTensor, SomePlacesAreMadeLateToo) {
  Made made;
  const AxisContext context{kName.site, "here", at::tensor({2, 0}, at::kLong)};
  const LateTensor row = LateTensor(made.recipe()).at(kName, Axis::batch, List{1}, context);
  const LateTensor last = LateTensor(made.recipe()).at(kName, Axis::query, AxisIndex::Last{}, context);
  EXPECT_EQ(*made.numbers, 0);
  EXPECT_TRUE(at::equal(row.value(kName), made.expected.narrow(0, 1, 1)));
  EXPECT_EQ(last.sizes(), (List{2, 4, 1, 3}));
  EXPECT_TRUE(at::equal(last.value(kName)[0], made.expected[0].narrow(1, 2, 1)));
  EXPECT_TRUE(at::equal(last.value(kName)[1], made.expected[1].narrow(1, 0, 1)));
}

TEST(LateTensor, IndicesThatAreNotThereAreRefusedAsThoseOfAnyTensor) {
  Made made;
  const LateTensor late(made.recipe());
  const AxisContext context{kName.site, "here", {}};
  for (const AxisIndices& indices : {at_axis(Axis::head, 4), at_axis(Axis::query, List{0, 3}),
                                     at_axis(Axis::head, AxisIndex::Last{}), at_axis(Axis::d_mlp, 0)}) {
    const auto here = thrown_by<HookError>([&] { late.block(kName, indices, context); });
    const auto there = thrown_by<HookError>([&] { take_block(made.expected, indices, context); });
    ASSERT_TRUE(here && there) << indices.to_string();
    EXPECT_STREQ(here->what(), there->what());
  }
}

TEST(LateTensor, WritingIntoWhatItIsMadeOfIsFound) {
  Made made;
  const LateTensor late(made.recipe()), read(made.recipe());
  read.value(kName);
  const LateTensor cut = late.at(kName, Axis::query, List{0, 2}, {kName.site, "here", {}});
  const LateTensor view = late.at(kName, Axis::query, List{0}, {kName.site, "here", {}});
  made.keys[0][0].fill_(9.0);  // through another view
  const auto error = thrown_by<HookError>([&] { late.value(kName); });
  ASSERT_TRUE(error);
  EXPECT_EQ(std::string(error->what()),
            "[blocks.0.attn.hook_pattern] the keys were written into after they were captured, and this "
            "activation is computed from them when it is first read; expected them unchanged; write into a "
            "copy: cache[...].clone()");
  EXPECT_THROW(late.require_unchanged(kName), HookError);
  EXPECT_THROW(late.block(kName, at_axis(Axis::head, 0), {kName.site, "here", {}}), HookError);
  EXPECT_THROW(cut.value(kName), HookError);
  EXPECT_THROW(view.value(kName), HookError);
  EXPECT_TRUE(at::equal(read.value(kName), made.expected)) << "read before";
}

TEST(LateTensor, WhatFailsIsTriedAgain) {
  bool fails = true;
  const LateTensor late(Recipe(kName, {1, 1, 1, 1}, at::kDouble, {}, [&](const std::vector<at::Tensor>&) {
    if (fails) throw std::runtime_error("no memory");
    return at::ones({1, 1, 1, 1}, at::kDouble);
  }));
  EXPECT_THROW(late.value(kName), std::runtime_error);
  fails = false;
  EXPECT_EQ(late.value(kName).item<double>(), 1.0);
}

// Only positions of an activation are kept: the rest is freed with its last handle, not with the run.
TEST(LateTensor, KeptPositionsLetTheRestGo) {
  const PointIndex points(tiny_config());
  const auto plan =
      std::make_shared<WatchPlan>(points, Reach::everything(points), Kept{.positions = AxisIndex(-1)});
  plan->add_capture(act::resid_pre | act::pattern);
  Watch watch(plan, {.columns = {.end = 8}});
  std::vector<double> memory(2 * 8 * 6, 1.0);
  bool gone = false;
  watch.fire(points.require(act::resid_pre(0).name()),
             at::from_blob(
                 memory.data(), {2, 8, 6}, [&](void*) { gone = true; }, at::kDouble));
  EXPECT_TRUE(gone);
  EXPECT_EQ(watch.take_cache()[act::resid_pre(0)].sizes(), (at::IntArrayRef{2, 1, 6}));
}

}  // namespace
}  // namespace hooked::late_tensor_test
