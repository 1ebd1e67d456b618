// The tests' own main: the strict device is registered before anything else, if it is the one that is
// compared with the CPU. For another device only that comparison exists; if the device is missing, one test
// says why the others are not run.
#include <gtest/gtest.h>

#include "tests/device/device_under_test.h"
#include "tests/support/strict_device/device.h"

int main(int count, char** arguments) {
  using namespace hooked::device_tests;
  if (on_strict_device()) {
    hooked::strict::install();
  } else {
    GTEST_FLAG_SET(filter,
                   missing_device().empty() ? "*OnTheDevice*:*OverDevices*:Recorded*:Device.*" : "Device.*");
  }
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
