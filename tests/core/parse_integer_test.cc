#include "core/parse_integer.h"

#include <gtest/gtest.h>

#include <limits>

namespace hooked::parse_integer_test {
namespace {

TEST(ParseInteger, ReadsAllOfTheText) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-17"), -17);
  EXPECT_EQ(parse_integer("007"), 7);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_integer("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
}

TEST(ParseInteger, GivesNothingForOtherText) {
  for (const char* text : {"", "-", "+1", " 1", "1 ", "1.5", "1e3", "0x1", "--1", "9223372036854775808", "x"})
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
}

}  // namespace
}  // namespace hooked::parse_integer_test
