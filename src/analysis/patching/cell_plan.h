#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/runs/patched_runs.h"
#include "analysis/runs/sweep_input.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/analysis/sweep.h"

namespace hooked {

/// Patches for some of the cells of a plan, in the same order.
struct CellPatches {
  std::vector<std::int64_t> cells;
  std::vector<Patch> patches;
};

/// Cells whose patches are made together: those of one activation, for example.
struct CellGroup {
  std::vector<std::int64_t> cells;
  /// The patches of one row; missing cells (padding, places that the layer lacks) have no number.
  std::function<CellPatches(const PatchedRuns& runs, SweptRow row)> patches;
  std::vector<ActivationName> reads = {};  ///< read from the run without patches; empty: what a path reads
};

/// What a sweep does for each row of its input: patches for the cells of a grid.
struct CellPlan {
  std::vector<GridAxis> axes = {};           ///< cells are numbered along them, the last one fastest
  std::vector<ActivationName> patched = {};  ///< what the run without patches must keep
  std::vector<CellGroup> groups = {};
  std::vector<ActivationName> read = {};  ///< what else it must keep
  /// Throws if a row cannot be patched, before anything runs.
  std::function<void(SweptRow row)> check = nullptr;
  std::string title = {};   ///< of the grid
  std::string record = {};  ///< what is patched, for the record of a partial file

  std::int64_t cells() const;
  /// What is patched and what else is read.
  std::vector<ActivationName> kept() const;
};

/// The group with other numbers for its cells: those of a larger plan that it becomes a part of.
CellGroup renumbered(CellGroup group, std::function<std::int64_t(std::int64_t cell)> number);

/// `options` for a plan that already says all but where the rows are among the grid's axes: that alone stays
/// in `over`.
SweepOptions rows_alone(SweepOptions options);

/// Whether a site, a table, a stack or an axis other than that of rows says what is patched; an analysis that
/// patches its own places refuses this.
bool says_what_is_patched(const SweepOptions& options);
/// Throws HookError for that, in the name of `where`: `what` says where the analysis patches.
void require_own_places(const SweepOptions& options, const char* where, const char* what);

/// The plan for `site` and `over`, or for `table`. Throws HookError and ShapeError for what does not fit. A
/// site with fewer than `heads` heads still gets cells for `heads`; the missing ones have no number.
CellPlan make_plan(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                   std::int64_t heads = 0);

/// The same over the axes of one site (site_cells.cc), and over explicit cells (table_cells.cc).
CellPlan cells_of_site(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                       std::int64_t heads);
CellPlan cells_of_table(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into);

/// The plan of a preset. (patching_presets.cc)
CellPlan plan_of_preset(const HookedTransformer& model, const PatchingPreset& preset,
                        const SweepOptions& options, const SweepInput& into);

/// Throws HookError if a row of the run that values come from has its tokens in other columns: then columns
/// cannot be matched one to one.
void require_same_columns(const PatchSource& from, const SweepInput& into, const TokenAxis& axis,
                          SweptRow row);

/// The column of a place in one row of `into`, whose tokens are `here`, and in the run that values come from.
std::pair<std::int64_t, std::int64_t> columns_of_place(const SweptPlace& place, SweptRow row,
                                                       const TokenColumns& here,
                                                       const std::optional<SourceReader::RowOfRun>& from);

/// The keys of a pattern that may not be attended to in the run without patches, bool; undefined for other
/// activations.
at::Tensor masked_keys(const ActivationName& name, const PatchedRuns& runs);

}  // namespace hooked
