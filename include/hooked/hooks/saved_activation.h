#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "hooked/core/export.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/io/safetensors.h"

namespace HOOKED_EXPORT hooked {

/// A cache with only the activation `key`, if ActivationCache::save wrote `file` and it has that key; nothing
/// for other files and keys. Throws what ActivationCache::load throws for a damaged file.
std::optional<ActivationCache> saved_activation(const SafetensorsFile& file, const std::string& key);

/// What a cache of one activation holds at `places`, columns of the sequence, as the activation `name`.
/// `last` means the column `last` of each row, int64 [batch]. Throws HookError for a column that is not
/// held.
at::Tensor block_of(const ActivationCache& one, const ActivationName& name, const AxisIndices& places,
                    const at::Tensor& last);

}  // namespace hooked
