#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Weights by TransformerLens's state-dict name: `blocks.0.attn.W_Q` is [head, d_model, d_head], and so on
/// (docs/architecture.md lists them all). Grouped-query attention stores `_W_K`, `_W_V`, `_b_K`, `_b_V` with
/// the key/value heads. Values may be strided views; callers that pack or save them make them contiguous.
using StateDict = std::map<std::string, at::Tensor>;

}  // namespace hooked
