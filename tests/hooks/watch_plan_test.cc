#include "hooks/watch_plan.h"

#include "hooked/hooks/act.h"
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

class RecordingKeyOf : public WatchPlanTest {
 protected:
  std::optional<RecordingKey> key(WatchPlan plan, const RunColumns& columns = {.end = 5}) const {
    return Watch(std::make_shared<const WatchPlan>(std::move(plan)), {.columns = columns})
        .recording_key(tiny_config(), /*batch=*/2);
  }
  RecordingKey key(const Edit& edit, const RunColumns& columns = {.end = 5}) const {
    return key(with(edit), columns).value();
  }
  std::string text(const Edit& edit, const RunColumns& columns = {.end = 5}) const {
    return key(edit, columns).text;
  }
};

TEST_F(RecordingKeyOf, DiffersWhereARecordingCannotServeBoth) {
  const std::string one = text(set(act::z(1).head(2), ones({2, 7})));
  EXPECT_EQ(text(set(act::z(1).head(2), ones({2, 7}) * 3)), one) << "another value";
  EXPECT_EQ(text(set(act::z(1).head(1), ones({2, 7}))), one) << "another place";
  const AxisIndex::Range range{2, 3};
  for (const Edit& other : {set(act::z(2).head(2), ones({2, 7})), add(act::z(1).head(2), ones({2, 7})),
                            set(act::z(1).head(2), ones({7})), set(act::z(1).head(2), 1.0),
                            set(act::z(1).pos(2), ones({2, 7})), set(act::z(1).head(range), ones({2, 7})),
                            set(act::z(1).head(std::vector<std::int64_t>{2}), ones({2, 7}))}) {
    EXPECT_NE(text(other), one);
  }
  EXPECT_NE(text(zero(act::z(1).head(range))), text(zero(act::z(1).head(AxisIndex::Range{1, 2}))));
  WatchPlan more = with(set(act::z(1).head(2), ones({2, 7})));
  more.add_capture(act::z(0));
  EXPECT_NE(key(more)->text, one);
  more.add_hook({act::z(0), [](const at::Tensor&) {}});
  EXPECT_FALSE(key(more)) << "a function cannot be recorded";
}

TEST_F(RecordingKeyOf, NamesThePlacesOfEdits) {
  using Places = std::vector<std::int64_t>;
  EXPECT_EQ(key(zero(act::z(1).head(-1).pos(2))).places, (Places{3, 2})) << "in the order of the indices";
  EXPECT_EQ(key(zero(act::z(1).row(-1).pos(Places{0, -2}))).places, (Places{1, 0, 3}));
  EXPECT_EQ(key(zero(act::z(1).pos(4)), {.first = 3, .end = 5}).places, Places{1}) << "among the run's own";
  EXPECT_EQ(key(zero(act::z(1).head(AxisIndex::Range{1, 3}))).places, Places{});
  EXPECT_THROW(key(zero(act::z(1).head(4))), HookError);
  EXPECT_THROW(key(zero(act::z(1).row(2))), HookError);
}

TEST_F(RecordingKeyOf, AStepSaysWhetherItsColumnIsMeant) {
  const Edit edit = zero(act::z(1).pos(AxisIndex::Range{4, {}}));
  const auto step = [](std::int64_t column) {
    return RunColumns{.first = column, .end = column + 1, .limit = 8};
  };
  EXPECT_EQ(text(edit, step(4)), text(edit, step(6)));
  EXPECT_EQ(key(edit, step(4)).places, key(edit, step(6)).places);
  EXPECT_EQ(text(edit, step(2)), text(edit, step(3)));
  EXPECT_NE(text(edit, step(3)), text(edit, step(4)));
}

TEST_F(WatchPlanTest, EditsApplyAtPlacesThatWereNotThereWhenTheyWerePlanned) {
  const at::Tensor value = at::arange(2 * 5 * 4 * 7, at::kDouble).view({2, 5, 4, 7});
  using Places = std::vector<std::int64_t>;
  const auto edits_at = [&](std::int64_t row, std::int64_t head, const Places& positions) {
    const Address place = act::z(1).row(row).head(head).pos(positions);
    return std::vector<Edit>{scale(place, 2.0), add(act::z(1).head(head), 0.5)};
  };
  const auto fired = [&](const std::vector<Edit>& edits, const at::Tensor& places) {
    auto plan = std::make_shared<WatchPlan>(points_, Reach::everything(points_));
    for (const Edit& edit : edits) plan->add_edit(edit);
    Watch watch(plan, {.columns = {.end = 5}});
    if (places.defined()) watch.put_places(places);
    return watch.fire(number(act::z(1)), value);
  };
  const std::vector<Edit> meant = edits_at(1, 3, {0, 4}), planned = edits_at(0, 1, {2, 3});
  const at::Tensor expected = fired(meant, {});
  const at::Tensor places = at::tensor(Places{1, 3, 0, 4, 3}, at::kLong);
  EXPECT_TRUE(at::equal(fired(planned, places), expected));
  EXPECT_FALSE(at::equal(fired(planned, {}), expected));
}

}  // namespace
}  // namespace hooked::watch_plan_test
