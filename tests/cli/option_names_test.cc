#include "core/option_names.h"

#include <gtest/gtest.h>

#include "hooked/core/tensor_text.h"
#include "hooked/weights/processing.h"

namespace hooked::option_names_test {
namespace {

// The names that the command line checks against are those of the library.
TEST(OptionNames, AreThoseOfTheLibrary) {
  for (const auto name : kFloatDtypeNames) {
    ASSERT_TRUE(parse_float_dtype(name)) << name;
    EXPECT_EQ(dtype_text(*parse_float_dtype(name)), name);
  }
  ASSERT_EQ(kProcessingStepNames.size(), kProcessingSteps.size());
  for (std::size_t i = 0; i < kProcessingSteps.size(); ++i) {
    EXPECT_EQ(processing_step_name(kProcessingSteps[i]), kProcessingStepNames[i]);
  }
}

}  // namespace
}  // namespace hooked::option_names_test
