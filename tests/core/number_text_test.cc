#include "core/number_text.h"

#include <cmath>

#include "tests/support/test.h"

namespace hooked::number_text_test {
namespace {

TEST(NumberText, HasNoSignWhereItMeansNothing) {
  EXPECT_EQ(fixed_text(-0.0001, 3), "0.000");
  EXPECT_EQ(fixed_text(-0.0, 0), "0");
  EXPECT_EQ(fixed_text(-0.0006, 3), "-0.001");
  EXPECT_EQ(fixed_text(-NAN, 3), "nan");
  EXPECT_EQ(fixed_text(-INFINITY, 3), "-inf");
}

TEST(NumberText, ProbabilitiesKeepTwoDigits) {
  EXPECT_EQ(probability_text(0.97138, 4), "0.9714");
  EXPECT_EQ(probability_text(0.0012, 4), "0.0012");
  EXPECT_EQ(probability_text(0.00012, 4), "1.2e-04");
  EXPECT_EQ(probability_text(3.14e-7, 3), "3.1e-07");
  EXPECT_EQ(probability_text(0, 4), "0.0000");
  EXPECT_EQ(probability_text(NAN, 4), "nan");
  EXPECT_EQ(percent_text(0.9714), "97.1 %");
  EXPECT_EQ(percent_text(0.00031), "0.031 %");
  EXPECT_EQ(percent_text(3.14e-7), "3.1e-05 %");
  EXPECT_EQ(percent_text(0), "0.0 %");
}

TEST(NumberText, AColumnIsWrittenInOneWay) {
  const ColumnFormat usual(12.5, 3), small(0.0706, 3), tiny(3e-7, 3), large(2.5e6, 3), nothing(0, 3);
  EXPECT_EQ(usual(-1.25), "-1.250");
  EXPECT_EQ(usual(0.00004), "0.000");
  EXPECT_EQ(small(-0.07), "-0.0700");
  EXPECT_EQ(tiny(-1e-9), "-1.00e-09");
  EXPECT_EQ(tiny(-0.0), "0");
  EXPECT_EQ(large(1.5), "1.50e+00");
  EXPECT_EQ(large(NAN), "nan");
  EXPECT_EQ(nothing(0), "0.000");
}

TEST(NumberText, WholeNumbersHaveNoDecimals) {
  const double ranks[] = {0, 12, NAN}, scores[] = {-1e-5, 0.5}, small[] = {3e-5, -2e-5};
  EXPECT_EQ(ColumnFormat::of(ranks, 4)(12), "12");
  EXPECT_EQ(ColumnFormat::of(scores, 4)(-1e-5), "0.0000");
  EXPECT_EQ(ColumnFormat::of(small, 4)(-2e-5), "-2.00e-05");
}

}  // namespace
}  // namespace hooked::number_text_test
