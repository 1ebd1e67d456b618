#pragma once

#include <optional>

#include "hooked/analysis/head_place.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Which paths are patched. For designated initialisers.
struct DirectPathOptions {
  HeadInput input = HeadInput::query;    ///< where paths end
  std::optional<HeadPlace> source = {};  ///< where they begin; nothing: at every head
  /// From where, into what, how it is scored, and the rest; `site`, `over` and `table` stay empty. `from`
  /// must be a run that kept z.
  SweepOptions sweep = {};
};

/// Direct path patching: changes the queries (or keys, or values) of one later head in the patched run by
/// what the difference between a head's output in `from` and in the run contributes to them, with the scale
/// of the later head's norm held fixed. Nothing else sees the difference.
///
/// A Grid [source_layer, source_head, layer, head] or, with one source, [layer, head], where `head` counts
/// key/value heads for keys and values; preceded by `row` and `metric` as in sweep(). NaN if the later head
/// is not in a later layer. The output norm and the weights of the norms are part of the path. Throws as
/// sweep(), HookError for models with two stacks, latent attention, or norms on the stream itself. (Method:
/// Wang et al. 2023, "path patching"; linearised as in TransformerLens.)
Grid direct_path(const HookedTransformer& model, const DirectPathOptions& options);

/// The same with a report.
SweepReport direct_path_report(const HookedTransformer& model, const DirectPathOptions& options);

}  // namespace hooked
