#include "hooks/watch_plan.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooks/watch.h"
#include "tests/hooks/watching.h"

namespace hooked::watch_plan_test {
namespace {

at::Tensor ones(at::IntArrayRef sizes) { return at::ones(sizes, at::kDouble); }

class WatchPlanTest : public testing::Test {
 protected:
  WatchPlan plan() const { return {points_, Reach::everything(points_)}; }
  WatchPlan with(const Edit& edit) const {
    WatchPlan made = plan();
    made.add_capture(act::resid_post);
    made.add_edit(edit);
    return made;
  }
  std::size_t number(const Address& address) const { return points_.require(address.name()); }

  PointIndex points_{tiny_config()};
};

TEST_F(WatchPlanTest, OnePlanServesRunsOfSeveralLengths) {
  auto plan = std::make_shared<WatchPlan>(points_, Reach::everything(points_));
  plan->add_edit(zero(act::resid_pre(1).pos(-1)));
  plan->add_capture(act::resid_pre(1));
  const std::size_t point = number(act::resid_pre(1));
  for (const std::int64_t length : {3, 5}) {
    Watch watch(plan, {.columns = {.end = length}});
    const at::Tensor seen = watch.fire(point, ones({1, length, 6}));
    EXPECT_EQ(seen.sum().item<double>(), 6.0 * static_cast<double>(length - 1));
    EXPECT_TRUE(at::equal(watch.take_cache()[act::resid_pre(1)], seen)) << "each run has its own cache";
  }
}

TEST_F(WatchPlanTest, ARunEndsWithItsLastPointWhereNothingElseIsAskedFor) {
  auto plan = std::make_shared<WatchPlan>(points_, Reach::everything(points_));
  plan->add_capture(act::resid_pre(0) | act::resid_pre(1));
  Watch watch(plan, {.columns = {.end = 2}, .ends_with_last_point = true});
  watch.fire(number(act::resid_pre(0)), ones({1, 2, 6}));
  EXPECT_FALSE(watch.is_over());
  EXPECT_THROW(watch.fire(number(act::resid_pre(1)), ones({1, 2, 6})), LastPointPassed);
  EXPECT_EQ(watch.take_cache().size(), 2u) << "what the last point kept is there";
}

TEST_F(WatchPlanTest, ARecordingServesPlansThatDifferInValuesOnly) {
  const auto key = [&](const Edit& edit) { return with(edit).recording_key().value(); };
  const std::string one = key(set(act::z(1).head(2), ones({2, 7})));
  EXPECT_EQ(key(set(act::z(1).head(2), ones({2, 7}) * 3)), one);
  for (const Edit& other : {set(act::z(1).head(1), ones({2, 7})), set(act::z(2).head(2), ones({2, 7})),
                            add(act::z(1).head(2), ones({2, 7})), set(act::z(1).head(2), ones({7})),
                            set(act::z(1).head(2), 1.0)}) {
    EXPECT_NE(key(other), one);
  }
  WatchPlan more = with(set(act::z(1).head(2), ones({2, 7})));
  more.add_capture(act::z(0));
  EXPECT_NE(more.recording_key().value(), one);
  more.add_hook({act::z(0), [](const at::Tensor&) {}});
  EXPECT_FALSE(more.recording_key()) << "a function cannot be recorded";
}

}  // namespace
}  // namespace hooked::watch_plan_test
