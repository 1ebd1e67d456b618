#pragma once

#include <cstdint>

#include "hooked/core/model_config.h"
#include "hooked/engine/input.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Throws ShapeError if `input` cannot follow its prefix: the prefix is of another model, has another number
/// of rows, or its keys would not remain valid.
void require_prefix(const Prefix& prefix, const LoadedModel& model, const Input& input);

/// Throws ShapeError if a row of `input` cannot begin at its first column.
void require_first_columns(const Input& input, const ModelConfig& config);

/// Throws ShapeError if the keys of a prefix would have to be rotated again in a sequence of `length` tokens.
void require_lasting_keys(const ModelConfig& config, std::int64_t length);

}  // namespace hooked
