#include "cli/output.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(without_nan(printed_text(grid)),
            "A (x)\n"
            "layer \\ pos  0 nan      1\n"
            "          0         1.500\n"
            "          1  2.500\n");
}

}  // namespace
}  // namespace hooked::cli::output_test
