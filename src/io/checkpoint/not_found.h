#pragma once

#include <string_view>

#include "io/files/hub_name.h"

namespace hooked {

/// Throws CheckpointError about a path at which nothing is, with the nearest name there.
[[noreturn]] void throw_no_path(std::string_view id);

/// Throws CheckpointError about a model that is not in the cache: with the whole name if `id` is a short one,
/// the nearest models or the other revisions that the cache has, and the command that downloads it.
[[noreturn]] void throw_not_cached(std::string_view id, const HubName& name, const HubCache& cache,
                                   const CachePlaces& places);

}  // namespace hooked
