#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "hooked/core/model_config.h"
#include "hooked/engine/input.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// The mask of some tokens, and their name in errors.
struct MaskedInput {
  const at::Tensor& mask;  ///< [batch, pos] bool; undefined: all are real
  const char* where;
};

/// Throws ShapeError for `tokens` [batch, pos] whose positions would depend on whether the mask or
/// `padding_token` decides which tokens count. Does nothing without such a token.
void require_one_count(std::optional<std::int64_t> padding_token, const at::Tensor& tokens,
                       const MaskedInput& input);

/// Throws ShapeError if `input` cannot follow its prefix: the prefix is of another model, has another number
/// of rows, or its keys would not remain valid.
void require_prefix(const Prefix& prefix, const LoadedModel& model, const Input& input);

/// Throws ShapeError if a row of `input` cannot begin at its first column.
void require_first_columns(const Input& input, const ModelConfig& config);

/// Throws ShapeError if the keys of a prefix would have to be rotated again in a sequence of `length` tokens.
void require_lasting_keys(const ModelConfig& config, std::int64_t length);

}  // namespace hooked
