#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "hooked/engine/text_options.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Throws TokenizerError with the reason if the model has no tokenizer that can be used.
const Tokenizer& tokenizer_of(const LoadedModel& model);

/// Ids of a text, [1, pos] int64 on the model's device. Throws TokenizerError.
at::Tensor tokens_of(const LoadedModel& model, std::string_view text, const TextOptions& options);

}  // namespace hooked
