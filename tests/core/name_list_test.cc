#include "core/name_list.h"

#include <gtest/gtest.h>

namespace hooked::name_list_test {
namespace {

TEST(NameList, ShowsAllOfAShortListEscaped) {
  EXPECT_EQ(name_list({}), "");
  EXPECT_EQ(name_list({"a", "b\nc"}), "a, b\\x0ac");
}

TEST(NameList, CountsWhatItLeavesOut) {
  EXPECT_EQ(name_list(std::vector<std::string>(20, "x")).find("more"), std::string::npos);
  EXPECT_TRUE(name_list(std::vector<std::string>(23, "x")).ends_with(", x and 3 more"));
}

}  // namespace
}  // namespace hooked::name_list_test
