#include "cli/output.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hooked::cli::output_test
