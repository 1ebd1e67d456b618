#pragma once

#include <string>
#include <vector>

#include "hooked/hooks/activation_cache.h"
#include "hooked/io/safetensors.h"

namespace hooked {

/// Whether ActivationCache::save or the program wrote the file.
bool is_saved_cache(const SafetensorsFile& file);

/// These activations of a saved cache, with what the file says about columns. Throws what
/// ActivationCache::load throws.
ActivationCache load_activations(const SafetensorsFile& saved, const std::vector<std::string>& names);

}  // namespace hooked
