#include "cli/output.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

namespace hooked::cli::output_test {
namespace {

TEST(Notes, StandBesideWhatIsPrinted) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  print_notes({"computed kernel by kernel: a loss is not recorded", "another"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "note: computed kernel by kernel: a loss is not recorded\nnote: another\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Output, CellsWithoutNumbersAreBlank) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Grid grid(at::tensor({nan, 1.5, 2.5, nan}, at::kDouble).view({2, 2}),
                  {{"layer", {"0", "1"}}, {"pos", {"0 nan", "1"}}}, {.title = "A", .unit = "x"});
  const auto printed = [](const Grid& some, const at::Tensor& blank) {
    testing::internal::CaptureStdout();
    print_blanked(some, blank);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(printed(grid, {}),
            "A (x)\n"
            "layer \\ pos  0 nan      1\n"
            "          0         1.500\n"
            "          1  2.500\n");
  const Grid pattern(at::tensor({1.0, 0.0, 0.25, 0.75}, at::kDouble).view({2, 2}),
                     {{"query", {"0", "1"}}, {"key", {"0", "1"}}}, {.title = "A", .unit = "x"});
  EXPECT_EQ(printed(pattern, later_keys(pattern)),
            "A (x)\n"
            "query \\ key      0      1\n"
            "          0  1.000\n"
            "          1  0.250  0.750\n");
  EXPECT_FALSE(later_keys(grid).defined());
  const Grid both_ways(at::full({2, 2}, 0.5, at::kDouble), pattern.axes(), {.title = "A", .unit = "x"});
  EXPECT_FALSE(later_keys(both_ways).defined()) << "a bidirectional model";
}

}  // namespace
}  // namespace hooked::cli::output_test
