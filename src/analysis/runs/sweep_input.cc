#include "analysis/runs/sweep_input.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "analysis/places/input_rows.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
SweepInput::SweepInput(const HookedTransformer& model, const Input& into, std::string_view where)
    : all_(into.text ? Input(model.to_tokens(*into.text), into) : into) {
  if (!all_.tokens.defined())
    throw ShapeError(where, "the input is missing; expected int64 tokens [row, pos] or [pos]");
  if (all_.start || all_.prefix || !all_.first_columns.empty())
    throw HookError(where, "the input continues from a residual or a prefix; expected all of the input");
  for (at::Tensor* tensor : tensors_of_rows(all_)) {
    if (tensor->defined() && tensor->dim() == 1) *tensor = tensor->unsqueeze(0);
    if (tensor->defined() && tensor->dim() != 2) {
      throw ShapeError(where,
                       fmt::format("the input is one sequence or several; expected tokens [row, pos] or "
                                   "[pos], got {}",
                                   shape_text(tensor->sizes())));
    }
  }
  all_ = all_.with_decoder_start(model.config());
  if (all_.tokens.size(0) == 0)
    throw ShapeError(where, "the input has no row; expected tokens [row, pos] with at least one");
  const auto require_same = [](const at::Tensor& tokens, const at::Tensor& beside, const char* what) {
    if (!beside.defined() || beside.sizes() == tokens.sizes()) return;
    throw ShapeError(what, fmt::format("it does not fit the tokens; expected {}, got {}",
                                       shape_text(tokens.sizes()), shape_text(beside.sizes())));
  };
  require_same(all_.tokens, all_.attention_mask, "attention_mask");
  require_same(all_.tokens, all_.token_types, "token_types");
  if (all_.decoder.tokens.defined())
    require_same(all_.decoder.tokens, all_.decoder.attention_mask, "decoder_attention_mask");
}

Input SweepInput::of_rows(std::int64_t begin, std::int64_t end) const {
  Input some = all_;
  for (at::Tensor* tensor : tensors_of_rows(some)) {
    if (tensor->defined()) *tensor = tensor->slice(0, begin, end);
  }
  return some;
}

Input SweepInput::of_row(std::int64_t row, bool with_padding_behind) const {
  Input one = of_rows(row, row + 1);
  if (with_padding_behind || one.feeds_encoder() || !one.attention_mask.defined()) return one;
  const std::int64_t end = one.last_columns()[0].item<std::int64_t>() + 1;
  for (at::Tensor* tensor : tensors_of_rows(one)) {
    if (tensor->defined()) *tensor = tensor->narrow(1, 0, end);
  }
  return one;
}

TokenColumns SweepInput::columns(bool of_encoder) const {
  const bool two_stacks = all_.feeds_encoder();
  const at::Tensor& tokens = two_stacks && !of_encoder ? all_.decoder.tokens : all_.tokens;
  const at::Tensor& mask = two_stacks && !of_encoder ? all_.decoder.attention_mask : all_.attention_mask;
  TokenColumns columns{.first = 0, .end = tokens.size(1)};
  if (mask.defined()) columns.mask = mask.ne(0).to(at::kCPU);
  return columns;
}

}  // namespace hooked
