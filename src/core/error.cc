#include "hooked/core/error.h"

#include <fmt/format.h>

namespace hooked {

Error::Error(std::string_view where, std::string_view message)
    : std::runtime_error(fmt::format("[{}] {}", where, message)), where_(where) {}

}  // namespace hooked
