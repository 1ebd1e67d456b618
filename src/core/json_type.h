#pragma once

#include <nlohmann/json_fwd.hpp>

namespace hooked {

/// Keys keep the order of the file. Lookup is linear: iterate over large objects instead of indexing them.
using Json = nlohmann::ordered_json;

}  // namespace hooked
