#pragma once

#include <nlohmann/json_fwd.hpp>

namespace hooked {

/// Keys keep the order of the file. Looking one up is linear: walk large objects instead of indexing them.
using Json = nlohmann::ordered_json;

}  // namespace hooked
