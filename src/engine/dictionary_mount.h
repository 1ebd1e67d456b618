#pragma once

#include "hooked/dictionaries/dictionary.h"
#include "hooked/engine/dictionary_place.h"
#include "hooks/mounted_dictionary.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// A dictionary at its place in that model. Throws HookError for a place that the model does not have, that
/// is no row of numbers per token, or where another dictionary stands; ShapeError for another width;
/// ConfigError for a dictionary that was fitted to values which this model, as its weights were processed,
/// does not compute.
MountedDictionary mounted(const LoadedModel& model, const Dictionary& dictionary,
                          const DictionaryPlace& place);

}  // namespace hooked
