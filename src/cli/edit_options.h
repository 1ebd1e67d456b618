#pragma once

#include <vector>

#include "cli/input_options.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/edit.h"
#include "options/command_options.h"

namespace hooked::cli {

/// The edits that `ADDRESS OP VALUE` texts describe, in their order. Throws UsageError for malformed texts,
/// HookError for addresses that the model does not have and for files of a model other than this one or
/// `from_model`, and the errors of safetensors files.
std::vector<Edit> read_edits(const EditOptions& options, const HookedTransformer& model, const Input& input);

}  // namespace hooked::cli
