#pragma once

#include <optional>

#include "hooked/hooks/activation_name.h"

namespace hooked {

/// The two points of a norm: what it divides by, and what it makes before its weight.
struct NormPoints {
  Site scale, normalized;
};

/// The norm that has this point; nothing where none has.
std::optional<NormPoints> norm_with(Site point);

/// Where a norm shows what it divides by, by its `normalized`.
ActivationName scale_of(const ActivationName& normalized);

}  // namespace hooked
