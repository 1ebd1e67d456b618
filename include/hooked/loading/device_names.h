#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Names of devices: `cpu`, `cuda`, `cuda:N`, or several GPUs.
///
///     {.device = "cuda"}   {.device = {"cuda:0", "cuda:1"}}   {.device = "cuda:0,cuda:1"}
class DeviceNames {
 public:
  /// One, or several with commas between them; `cuda:all` is every visible one.
  DeviceNames(const char* names);  // NOLINT: a name is a list
  /// The same.
  DeviceNames(const std::string& names);  // NOLINT
  /// Several.
  DeviceNames(std::initializer_list<std::string> names) : names_(names) {}
  /// The same.
  DeviceNames(std::vector<std::string> names) : names_(std::move(names)) {}  // NOLINT: a list is a list

  /// Each of them.
  const std::vector<std::string>& all() const& noexcept { return names_; }
  /// The same of a temporary, as a copy.
  std::vector<std::string> all() const&& { return names_; }
  /// Whether they may be more than one device.
  bool names_several() const {
    return names_.size() > 1 || (names_.size() == 1 && names_[0].ends_with(":all"));
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace hooked
