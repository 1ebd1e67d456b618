#include "hooked/engine/input.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "hooked/core/error.h"
#include "hooked/hooks/activation_cache.h"

namespace hooked {
namespace {

std::int64_t rows_of(const at::Tensor& columns) { return columns.dim() == 1 ? 1 : columns.size(0); }
std::int64_t length_of(const at::Tensor& columns) { return columns.size(columns.dim() == 1 ? 0 : 1); }

at::Tensor last_real_columns(const at::Tensor& columns, const at::Tensor& mask) {
  TokenColumns tokens{.end = length_of(columns)};
  if (mask.defined()) tokens.mask = mask.ne(0);
  return tokens.last(rows_of(columns)).to(columns.device());
}

}  // namespace

Input Input::start_at_layer(std::int64_t layer, at::Tensor residual, InputDetails details) {
  details.start = StartAtLayer{layer, std::move(residual)};
  return Input(at::Tensor(), std::move(details));
}

const at::Tensor Input::main_tokens() const { return feeds_encoder() ? decoder.tokens : tokens; }

const at::Tensor Input::main_mask() const {
  return feeds_encoder() ? decoder.attention_mask : attention_mask;
}

std::int64_t Input::batch() const { return rows_of(start ? start->residual : main_tokens()); }

std::int64_t Input::length() const { return length_of(start ? start->residual : main_tokens()); }

std::int64_t Input::first_column() const {
  if (!first_columns.empty()) return *std::min_element(first_columns.begin(), first_columns.end());
  return prefix ? prefix->length() : 0;
}

at::Tensor Input::last_columns() const {
  return last_real_columns(start ? start->residual : main_tokens(), main_mask());
}

at::Tensor Input::last_encoder_columns() const { return last_real_columns(tokens, attention_mask); }

Input Input::with_decoder_start(const ModelConfig& config) const {
  Input whole = *this;
  if (!config.has_encoder() || decoder.tokens.defined() || prefix || start || !tokens.defined()) return whole;
  if (!config.encoder->decoder_start_token) {
    throw ShapeError(
        "decoder_tokens",
        "this model's config names no token that its decoder starts with; expected decoder_tokens "
        "[batch, pos]");
  }
  whole.decoder.tokens =
      at::full({rows_of(tokens), 1}, *config.encoder->decoder_start_token, tokens.options());
  return whole;
}

}  // namespace hooked
