#pragma once

#include <optional>
#include <string>

#include "hooked/core/export.h"
#include "hooked/hooks/address.h"

namespace HOOKED_EXPORT hooked {

/// How much of each captured activation is kept, and where. For designated initialisers.
struct KeepOptions {
  /// Only these positions, along each point's pos or query axis, in this order (for a generation, in the
  /// order in which it comes to them). One that the run does not compute is a HookError.
  std::optional<AxisIndex> positions = std::nullopt;
  /// `"cpu"` (from a GPU in one piece, the first read waits), `"cuda:0"`; empty: where it is computed.
  std::string device = {};
};

}  // namespace hooked
