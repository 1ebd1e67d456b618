#pragma once

#include <vector>

#include "analysis/runs/source_reader.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/point_index.h"

namespace hooked {

/// Edits of a batch as edits of runs of one of its rows, for any number of rows in these runs.
/// Throws HookError for what the model does not have.
Edits edits_of_row(const Edits& edits, const PointIndex& points, SweptRow row);

/// Throws HookError if a hook or an edit is between what writes to a stream and what reads it: edges are
/// carried there as in the unedited model.
void require_free_way(const HookedTransformer& model, const Hooks& hooks, const Edits& edits);

/// Whether that point has hooks or edits. Throws HookError for what the model does not have.
bool may_change(const ActivationName& name, const Hooks& hooks, const Edits& edits, const PointIndex& points);

}  // namespace hooked
