#include "core/split.h"

#include <gtest/gtest.h>

namespace hooked::split_test {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Split, GivesWhatIsBetweenSeparatorsAlsoIfThatIsEmpty) {
  EXPECT_EQ(split("a.bc.d", '.'), (Parts{"a", "bc", "d"}));
  EXPECT_EQ(split(".a..", '.'), (Parts{"", "a", "", ""}));
  EXPECT_EQ(split("a", '.'), Parts{"a"});
  EXPECT_EQ(split("", '.'), Parts{""});
}

}  // namespace
}  // namespace hooked::split_test
