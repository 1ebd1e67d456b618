#pragma once

#include <cstdint>
#include <string>

namespace hooked {

/// `474.7 MiB`
std::string size_text(std::uint64_t bytes);

}  // namespace hooked
