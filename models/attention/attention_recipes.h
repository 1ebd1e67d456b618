#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hooks/recipe.h"
#include "models/attention/tiled_attention.h"
#include "models/sequence/kv_cache.h"
#include "models/storage/matrix.h"
#include "models/storage/workspace.h"

namespace hooked {

/// Which of the two squares of attention.
enum class Square : std::uint8_t { scores, pattern };

/// How scores or pattern [batch, head, query, key] of `q` [batch, query, head, d_head] are computed, by the
/// same tiles as when a run computes them.
Recipe recipe_of(Square square, const ActivationName& name, const at::Tensor& q,
                 const std::vector<KeysAndValues>& attended, const ScoreRules& rules,
                 const Workspace& workspace);

/// How each head's output [batch, pos, head, d_model] is computed from z [batch, pos, head, d_value].
Recipe recipe_of_result(const ActivationName& name, const at::Tensor& z, const Matrix& W_O,
                        const Workspace& workspace);

}  // namespace hooked
