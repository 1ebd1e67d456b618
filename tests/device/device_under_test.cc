#include "tests/device/device_under_test.h"

#include <cstdlib>

#include "hooked/core/error.h"
#include "loading/fill/device.h"

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

std::vector<std::string> devices_under_test() {
  std::vector<std::string> names;
  for (const c10::Device& device : open_devices(device_under_test() + ":all")) names.push_back(device.str());
  return names;
}

std::string second_device_under_test() {
  const std::vector<std::string> all = devices_under_test();
  return all.size() > 1 ? all[1] : all.front();
}

}  // namespace hooked::device_tests
