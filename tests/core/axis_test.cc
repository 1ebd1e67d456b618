#include "hooked/core/axis.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace hooked::axis_test {
namespace {

TEST(Axis, EveryNameParsesBackAndIsUnique) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Axis::one); ++i) {
    const auto axis = static_cast<Axis>(i);
    EXPECT_TRUE(names.insert(axis_name(axis)).second) << axis_name(axis);
    EXPECT_EQ(parse_axis(axis_name(axis)), axis);
  }
  EXPECT_EQ(axis_name(Axis::d_head), "d_head");
  EXPECT_EQ(axis_name(Axis::rotary_dim), "rotary_dim");
  EXPECT_EQ(axis_name(Axis::one), "one");
}

TEST(Axis, JunkIsNoAxis) {
  for (const auto* junk : {"", "Head", "head ", "heads", "d-head"}) EXPECT_FALSE(parse_axis(junk)) << junk;
}

TEST(AxisList, FindsTheDimensionOfAnAxis) {
  constexpr AxisList pattern = {Axis::batch, Axis::head, Axis::query, Axis::key};
  static_assert(pattern.size() == 4);
  EXPECT_EQ(pattern.find(Axis::key), 3);
  EXPECT_EQ(pattern.find(Axis::pos), std::nullopt);
  EXPECT_EQ(pattern[1], Axis::head);
}

}  // namespace
}  // namespace hooked::axis_test
