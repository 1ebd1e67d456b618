#include "core/index_text.h"

#include "tests/support/test.h"

namespace hooked::index_text_test {
namespace {

using Kind = IndexText::Kind;
using Numbers = std::vector<std::int64_t>;

TEST(IndexText, ReadsNumbersListsAndTheLastToken) {
  EXPECT_EQ(read_index("6").value().kind, Kind::one);
  EXPECT_EQ(read_index("-1").value().numbers, Numbers{-1});
  EXPECT_EQ(read_index("1+3+-2").value().kind, Kind::list);
  EXPECT_EQ(read_index("1+3+-2").value().numbers, (Numbers{1, 3, -2}));
  EXPECT_EQ(read_index("last").value().kind, Kind::last);
}

TEST(IndexText, ReadsRangesWithOpenEnds) {
  const auto range = [](const char* text) {
    const IndexText read = read_index(text).value();
    EXPECT_EQ(read.kind, Kind::range) << text;
    return std::pair(read.begin, read.end);
  };
  EXPECT_EQ(range("2:5"), std::pair(std::optional<std::int64_t>(2), std::optional<std::int64_t>(5)));
  EXPECT_EQ(range("-3:"), std::pair(std::optional<std::int64_t>(-3), std::optional<std::int64_t>()));
  EXPECT_EQ(range(":4"), std::pair(std::optional<std::int64_t>(), std::optional<std::int64_t>(4)));
  EXPECT_EQ(range(":"), std::pair(std::optional<std::int64_t>(), std::optional<std::int64_t>()));
}

TEST(IndexText, RefusesEverythingElse) {
  for (const char* text : {"", " 1", "1 ", "first", "1.5", "0-2", "1:2:3", "a:", ":b", "1+", "+1", "1+x",
                           "1:2+3", "99999999999999999999", "last:"}) {
    EXPECT_FALSE(read_index(text)) << text;
  }
}

}  // namespace
}  // namespace hooked::index_text_test
