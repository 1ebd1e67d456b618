#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/loaded_model.h"
#include "hooked/engine/run_options.h"
#include "hooks/watch.h"

namespace hooked {

/// The part of the graph that a run computes, and the columns.
struct RunExtent {
  Reach reach;
  RunColumns columns;
  std::optional<std::int64_t> source_length = std::nullopt;  ///< columns that an encoder reads
};

/// Everything that `options` and the handle's `scoped` hooks watch in a run. Throws HookError for what this
/// model or this run does not have.
Watch make_watch(const LoadedModel& model, const RunExtent& extent, const std::vector<Hook>& scoped,
                 const RunOptions& options);

/// Whether anything behind the last block is watched.
bool watches_exit(const Watch& watch);

}  // namespace hooked
