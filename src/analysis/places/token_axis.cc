#include "hooked/analysis/token_axis.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <utility>

#include "analysis/places/named_tokens.h"
#include "analysis/places/row_columns.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {

void name_tokens(GridAxis& axis, const HookedTransformer& model, const at::Tensor& ids) {
  if (!model.has_tokenizer() || ids.numel() == 0) return;
  const auto texts = model.to_str_tokens(ids);
  for (std::size_t i = 0; i < texts.size(); ++i) axis.labels[i] += ' ' + texts[i];
}

void name_tokens(GridAxis& axis, const HookedTransformer& model, const std::optional<TokenColumns>& tokens,
                 const at::Tensor& columns) {
  if (!model.has_tokenizer() || !tokens || !tokens->ids.defined() || columns.size(0) != 1) return;
  const at::Tensor places = columns[0] - tokens->first;
  const bool known = places.ge(0).logical_and(places.lt(tokens->ids.size(1))).all().item<bool>();
  if (known) name_tokens(axis, model, tokens->ids[0].to(at::kCPU).index_select(0, places));
}

GridAxis token_axis(const HookedTransformer& model, const at::Tensor& ids, std::string name) {
  const bool one_row = ids.defined() && (ids.dim() == 1 || (ids.dim() == 2 && ids.size(0) == 1));
  if (!one_row) {
    throw ShapeError("token_axis", fmt::format("an axis has the tokens of one row; expected ids [pos] or [1, "
                                               "pos], got {}; take one row (ids[0])",
                                               ids.defined() ? shape_text(ids.sizes()) : "none"));
  }
  GridAxis axis = numbered_axis(name, ids.numel());
  name_tokens(axis, model, ids.flatten());
  return axis;
}

}  // namespace hooked
