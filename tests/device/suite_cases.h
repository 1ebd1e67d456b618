#pragma once

#include <vector>

#include "tests/support/goldens.h"

namespace hooked::device_tests {

/// Whether HOOKED_ALL_CHECKPOINTS asks for all of them.
bool all_checkpoints();

/// The golden checkpoints that are compared: one for each mechanism, or all.
std::vector<GoldenCase> suite_cases();

}  // namespace hooked::device_tests
