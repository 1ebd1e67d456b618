#pragma once

#include <cstdint>

#include "hooked/engine/generate_options.h"
#include "hooked/engine/input.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// Throws HookError, before anything runs, for an edit of a generation that means columns which its steps do
/// not compute, or whose value does not fit what one of them computes. `end` is one past the last column that
/// they may compute.
void check_generation_edits(const LoadedModel& model, const Input& prompt, const GenerateOptions& options,
                            std::int64_t end);

}  // namespace hooked
