#pragma once

#include <ATen/core/Tensor.h>

#include "models/graph/token_mixer.h"
#include "models/sequence/rotary.h"
#include "models/sequence/run.h"

namespace hooked {

/// `x` [batch, pos, head, width], rotated by the angles of its positions. Gradients are rotated back.
at::Tensor turned(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary,
                  const Run& run);

/// Rotates queries, and keys if there are any.
void turn(Heads& heads, const RotaryAngles& angles, const RotaryPositions& rotary, const Run& run);

}  // namespace hooked
