#pragma once

#include "hooked/engine/hooked_transformer.h"
#include "hooks/mounted_dictionary.h"

namespace hooked {

/// The dictionaries of a model as its runs compute them, in the order of HookedTransformer::dictionaries().
/// They live as long as the model. (dictionary_mount.cc)
const MountedDictionaries& mounted_in(const HookedTransformer& model);

}  // namespace hooked
