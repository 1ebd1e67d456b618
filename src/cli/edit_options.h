#pragma once

#include <string>
#include <vector>

#include "cli/input_options.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/edit.h"

namespace hooked::cli {

/// The edits that `ADDRESS OP VALUE` texts describe, in their order. Throws UsageError for texts of another
/// form, HookError for addresses that the model does not have, and the errors of safetensors files.
std::vector<Edit> read_edits(const std::vector<std::string>& texts, const HookedTransformer& model,
                             const Input& input);

}  // namespace hooked::cli
