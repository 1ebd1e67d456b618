#include "io/files/checked_size.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace hooked::checked_size_test {
namespace {

using Sizes = std::vector<std::int64_t>;
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

TEST(CheckedSize, Bytes) {
  EXPECT_EQ(checked_bytes(Sizes{}, 32), 4U);
  EXPECT_EQ(checked_bytes(Sizes{2, 3}, 16), 12U);
  EXPECT_EQ(checked_bytes(Sizes{2, 0}, 16), 0U);
  EXPECT_EQ(checked_bytes(Sizes{kMost / 8}, 8), static_cast<std::uint64_t>(kMost / 8));
  EXPECT_EQ(checked_bytes(Sizes{kMost / 8 + 1}, 8), std::nullopt);
  EXPECT_EQ(checked_bytes(Sizes{0, kMost, kMost}, 8), std::nullopt);
  EXPECT_EQ(checked_bytes(Sizes{4194305, 4194305, 211106198978564}, 8), std::nullopt);  // wraps to 4
  EXPECT_EQ(checked_bytes(Sizes{1}, 4), std::nullopt);
}

TEST(CheckedSize, Span) {
  EXPECT_EQ(checked_span(Sizes{}, Sizes{}), 1U);
  EXPECT_EQ(checked_span(Sizes{2, 3}, Sizes{3, 1}), 6U);
  EXPECT_EQ(checked_span(Sizes{2, 3}, Sizes{10, 2}), 15U);
  EXPECT_EQ(checked_span(Sizes{7, 3}, Sizes{0, 1}), 3U);
  EXPECT_EQ(checked_span(Sizes{7, 0}, Sizes{kMost, kMost}), 0U);
  EXPECT_EQ(checked_span(Sizes{1, kMost}, Sizes{kMost, 1}), static_cast<std::uint64_t>(kMost));
  EXPECT_EQ(checked_span(Sizes{2, kMost}, Sizes{1, 1}), std::nullopt);
  EXPECT_EQ(checked_span(Sizes{3}, Sizes{kMost}), std::nullopt);
  EXPECT_EQ(checked_span(Sizes{kMost}, Sizes{kMost}), std::nullopt);
}

}  // namespace
}  // namespace hooked::checked_size_test
