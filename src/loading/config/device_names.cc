#include "hooked/loading/device_names.h"

#include <string_view>

namespace hooked {

DeviceNames::DeviceNames(const char* names) : DeviceNames(std::string(names)) {}

DeviceNames::DeviceNames(const std::string& names) {
  std::string_view rest = names;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = rest.find(',');
    names_.emplace_back(rest.substr(0, comma));
    if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
  }
}

}  // namespace hooked
