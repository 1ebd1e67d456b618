// The tests' own main: the strict device is registered before anything else.
#include <gtest/gtest.h>

#include "tests/support/strict_device/device.h"

int main(int count, char** arguments) {
  hooked::strict::install();
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
