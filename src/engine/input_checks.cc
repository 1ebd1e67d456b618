#include "engine/input_checks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "core/id_list.h"
#include "hooked/core/error.h"

namespace hooked {

// Note [Positions by a padding token]
// Positions count the tokens that the mask calls real. In some families transformers instead counts the
// tokens that are not the padding token, whatever the mask says, and gives a padding token a row of its own.
// Both agree as long as padding tokens are masked, and no other masked token is before a real token.
void require_one_count(std::optional<std::int64_t> padding_token, const at::Tensor& tokens,
                       const MaskedInput& input) {
  if (!padding_token || !tokens.defined()) return;
  const at::Tensor padding = (tokens == *padding_token).to(at::kCPU);
  const at::Tensor real = input.mask.defined() ? input.mask.to(at::kCPU) : at::ones_like(padding, at::kBool);
  const auto first_of = [&](const at::Tensor& wrong) { return id_list(at::nonzero(wrong)[0]); };
  if (const at::Tensor wrong = padding.logical_and(real); wrong.any().item<bool>()) {
    const auto place = first_of(wrong);
    throw ShapeError(
        input.where,
        fmt::format("row {} has the padding token {} at position {}, where the mask says that it is "
                    "real: this model has no position for it; expected the mask to be 0 there",
                    place[0], *padding_token, place[1]));
  }
  const at::Tensor real_later = at::cumsum(real.to(at::kLong).flip(1), 1).flip(1) > 0;
  const at::Tensor hidden = padding.logical_not().logical_and(real.logical_not()).logical_and(real_later);
  if (!hidden.any().item<bool>()) return;
  const auto place = first_of(hidden);
  throw ShapeError(
      input.where,
      fmt::format("row {} has a token that the mask hides at position {}, before real ones: this "
                  "model counts it all the same, so that their positions would be others than here; "
                  "expected the padding token {} there",
                  place[0], place[1], *padding_token));
}

void require_prefix(const Prefix& prefix, const LoadedModel& model, const Input& input) {
  if (prefix.model().get() != &model) {
    throw ShapeError("prefix", "the prefix was run by another model; expected one of this model");
  }
  if (prefix.batch() != 1 && prefix.batch() != input.batch()) {
    throw ShapeError("prefix", fmt::format("the prefix has another number of rows than the input; expected 1 "
                                           "or {}, got {}",
                                           input.batch(), prefix.batch()));
  }
  const ModelConfig& config = model.config;
  if (config.direction == AttentionDirection::bidirectional) {
    throw ShapeError(
        "prefix",
        "in this model tokens attend to those after them as well, so the keys and values of a prefix "
        "would not hold; expected no prefix with a bidirectional model");
  }
  require_lasting_keys(config, input.first_column() + input.length());
}

void require_first_columns(const Input& input, const ModelConfig& config) {
  constexpr const char* where = "first_columns";
  if (!input.prefix || input.prefix->batch() != 1 || config.has_encoder()) {
    throw ShapeError(where,
                     "rows begin at columns of their own only after a prefix of one row, in models with one "
                     "stack; expected such a prefix");
  }
  if (input.attention_mask.defined()) {
    throw ShapeError(where,
                     "rows with first columns of their own have no padding; expected no attention_mask");
  }
  if (static_cast<std::int64_t>(input.first_columns.size()) != input.batch()) {
    throw ShapeError(where, fmt::format("there is not one first column for each row; expected {}, got {}",
                                        input.batch(), input.first_columns.size()));
  }
  const std::int64_t largest = std::min(input.prefix->length(), input.first_column() + input.length() - 1);
  for (std::size_t row = 0; row < input.first_columns.size(); ++row) {
    const std::int64_t column = input.first_columns[row];
    if (column >= 0 && column <= largest) continue;
    throw ShapeError(
        where,
        fmt::format("row {} cannot begin at column {}; expected 0 to {}, the prefix having "
                    "{} columns and the sequence {}",
                    row, column, largest, input.prefix->length(), input.first_column() + input.length()));
  }
}

void require_lasting_keys(const ModelConfig& config, std::int64_t length) {
  const RotaryPositions* rotary = config.rotary();
  if (rotary == nullptr) return;
  const auto* longrope = std::get_if<LongropeScaling>(&rotary->scaling);
  const auto* dynamic = std::get_if<DynamicScaling>(&rotary->scaling);
  if (longrope == nullptr && dynamic == nullptr) return;
  const double original = longrope != nullptr ? longrope->original_n_ctx : dynamic->original_n_ctx;
  if (static_cast<double>(length) <= original) return;
  throw ShapeError(
      "prefix", fmt::format("beyond {} tokens this model turns its keys by the length of the whole input, so "
                            "those of a prefix would not hold; expected at most that many, got {}; "
                            "run all tokens at once",
                            original, length));
}

}  // namespace hooked
