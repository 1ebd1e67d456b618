#pragma once

#include <string>
#include <vector>

/// Which device is compared with the CPU.
namespace hooked::device_tests {

/// Its name: that of HOOKED_TEST_DEVICE in the environment (`cuda`), else `strict`.
const std::string& device_under_test();

/// Another device of its kind; if there is only one, the same.
std::string second_device_under_test();

/// All devices of its kind, by their names.
std::vector<std::string> devices_under_test();

bool on_strict_device();

/// Why it cannot be opened; empty if it can be.
const std::string& missing_device();

}  // namespace hooked::device_tests
