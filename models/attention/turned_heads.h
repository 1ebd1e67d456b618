#pragma once

#include <ATen/core/Tensor.h>

#include "models/graph/head_projection.h"
#include "models/sequence/rotary.h"
#include "models/sequence/run.h"

namespace hooked {

/// `x` [batch, pos, head, width], turned by the angles of its positions. Gradients are turned back.
at::Tensor turned(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary,
                  const Run& run);

/// Turns queries, and keys where there are any.
void turn(Heads& heads, const RotaryAngles& angles, const RotaryPositions& rotary, const Run& run);

}  // namespace hooked
