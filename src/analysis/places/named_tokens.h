#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "hooked/analysis/grid.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace hooked {

/// Adds the text of the token at each place to its label, `10` becomes `10  Mary`, if the model has a
/// tokenizer. `ids` int64 [place].
void name_tokens(GridAxis& axis, const HookedTransformer& model, const at::Tensor& ids);

/// The same for a run that had these tokens. `columns` int64 [row, place]: the places' columns. Nothing is
/// added for several rows, which have different tokens, and if the run's ids are not known.
void name_tokens(GridAxis& axis, const HookedTransformer& model, const std::optional<TokenColumns>& tokens,
                 const at::Tensor& columns);

}  // namespace hooked
