#pragma once

#include <optional>

#include "hooked/hooks/activation_name.h"

namespace hooked {

/// The two points of a norm: what it divides by, and its output before the weight.
struct NormPoints {
  Site scale, normalized;
};

/// The norm that has this point; nothing if none has.
std::optional<NormPoints> norm_with(Site point);

/// The point of a norm's divisor, given its `normalized`.
ActivationName scale_of(const ActivationName& normalized);

}  // namespace hooked
