// The numbers that bytes encode, against LibTorch's own types and the formats' tables.
#include "io/files/number_codes.h"

#include <c10/util/Float8_e4m3fn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace hooked::number_codes_test {
namespace {

TEST(NumberCodes, E4m3IsThatOfLibTorch) {
  for (int byte = 0; byte < 256; ++byte) {
    const float ours = e4m3_numbers()[static_cast<std::size_t>(byte)];
    const float theirs = c10::Float8_e4m3fn(static_cast<std::uint8_t>(byte), c10::Float8_e4m3fn::from_bits());
    if (std::isnan(theirs)) {
      EXPECT_TRUE(std::isnan(ours)) << byte;
      continue;
    }
    EXPECT_EQ(std::bit_cast<std::uint32_t>(ours), std::bit_cast<std::uint32_t>(theirs)) << byte;
  }
}

TEST(NumberCodes, E8m0IsAPowerOfTwo) {
  EXPECT_EQ(e8m0_numbers()[127], 1.0F);
  EXPECT_EQ(e8m0_numbers()[128], 2.0F);
  EXPECT_EQ(e8m0_numbers()[0], 0x1p-127F);
  EXPECT_EQ(e8m0_numbers()[254], 0x1p127F);
  EXPECT_TRUE(std::isnan(e8m0_numbers()[255]));
}

TEST(NumberCodes, E2m1IsTheTableOfTheFormat) {
  for (std::size_t code = 0; code < 16; ++code) {
    const int exponent = static_cast<int>(code >> 1 & 3), mantissa = static_cast<int>(code & 1);
    const double size = exponent == 0 ? mantissa * 0.5 : std::ldexp(1 + mantissa * 0.5, exponent - 1);
    EXPECT_EQ(kE2m1Numbers[code], static_cast<float>(code >= 8 ? -size : size)) << code;
    EXPECT_EQ(std::signbit(kE2m1Numbers[code]), code >= 8) << code;
  }
}

}  // namespace
}  // namespace hooked::number_codes_test
