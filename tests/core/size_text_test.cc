#include "core/size_text.h"

#include <gtest/gtest.h>

namespace hooked::size_text_test {
namespace {

TEST(SizeText, TakesTheLargestUnitThatFits) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(std::uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(size_text(std::uint64_t{1} << 52), "4096.0 TiB");
}

}  // namespace
}  // namespace hooked::size_text_test
