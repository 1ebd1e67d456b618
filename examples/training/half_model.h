#pragma once

#include <filesystem>

#include "hooked/engine/hooked_transformer.h"

namespace training {

/// Saves a model with its weights in float16, which makes the file half as large. To compute in float32, load
/// it with `{.dtype = at::kFloat}`.
void save_in_half(const hooked::HookedTransformer& model, const std::filesystem::path& folder);

}  // namespace training
