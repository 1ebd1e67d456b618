#pragma once

#include <cstdint>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Which input of a head a path ends at.
enum class HeadInput : std::uint8_t { query, key, value };

/// A head of the stack that predicts.
struct HeadPlace {
  std::int64_t layer;  ///< negative from the end
  std::int64_t head;   ///< negative from the end
};

}  // namespace hooked
