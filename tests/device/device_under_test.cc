#include "tests/device/device_under_test.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>

#include "hooked/core/error.h"
#include "loading/device.h"

namespace hooked::device_tests {

const std::string& device_under_test() {
  static const std::string kName = [] {
    const char* const asked = std::getenv("HOOKED_TEST_DEVICE");
    return std::string(asked == nullptr ? "strict" : asked);
  }();
  return kName;
}

bool on_strict_device() { return device_under_test() == "strict"; }

const std::string& missing_device() {
  static const std::string kReason = []() -> std::string {
    try {
      open_device(device_under_test());
      return "";
    } catch (const IoError& error) {
      return error.what();
    }
  }();
  return kReason;
}

std::string second_device_under_test() {
  const c10::Device first = open_device(device_under_test());
  const int devices = c10::impl::getDeviceGuardImpl(first.type())->deviceCount();
  return device_under_test() + (devices > 1 ? ":1" : ":0");
}

}  // namespace hooked::device_tests
