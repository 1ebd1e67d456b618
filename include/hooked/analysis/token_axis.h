#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// The axis of a text's tokens, for a grid of your own: each label is the token's column, followed by its
/// text if the model has a tokenizer (`0 <bos>`, `1 When`, `2  John`). `ids` int64 [pos] or [1, pos]. Throws
/// ShapeError for ids of several rows, TokenizerError for an id that is not valid.
///
///     Grid(norms, {token_axis(model, tokens)}, {.title = "Norm of the stream"}).save("norms.svg");
GridAxis token_axis(const HookedTransformer& model, const at::Tensor& ids, std::string name = "pos");

}  // namespace hooked
