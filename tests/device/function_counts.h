#pragma once

#include <string>
#include <vector>

#include "tests/support/strict_device/counts.h"

namespace hooked::device_tests {

/// The cost of an analysis on the strict device, with all its runs, in float32.
struct CountedFunction {
  std::string name;       ///< as it is called
  std::string asked;      ///< what of it
  strict::Counts counts;  ///< of one call
};

/// The checkpoint that they are counted on.
inline constexpr const char* kAnalysedCheckpoint = "gpt2";

/// Every analysis, on that checkpoint and one row of it.
std::vector<CountedFunction> counted_functions();

}  // namespace hooked::device_tests
