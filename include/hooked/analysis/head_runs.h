#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/hook.h"

namespace HOOKED_EXPORT hooked {

/// Which scores of heads, and in which runs. For designated initialisers.
struct HeadRunsOptions {
  std::vector<HeadScore> scores = {};  ///< which; each gets a grid
  /// How. `tokens` is ignored: the input's tokens are used. Scores that do not look for a pattern (entropy,
  /// distance) ignore the measure.
  HeadScoreOptions how = {};
  Hooks hooks = {};  ///< active in every run, in addition to those that are attached
  Edits edits = {};  ///< active in every run
  /// Called between layers and after some rows; false ends the work. Rows that are whole are kept.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// Scores of heads, and how it went.
struct HeadRunsReport {
  /// One per score, as from head_scores(), of the rows that were run. A mean over rows covers only these;
  /// scores per row are NaN for the others. Empty if no row was run.
  std::vector<Grid> scores;
  std::int64_t rows;  ///< rows that were run
  bool complete;      ///< not ended by `progress`
  /// Notes on how the runs were computed (RunResult::notes), each note once.
  std::vector<std::string> notes = {};
};

/// Runs an input and scores its heads without keeping the patterns of all rows at once: a few rows are run
/// together, up to 1024 tokens and fewer if memory runs out, or one row if there are edits. Hooks see these.
///
/// Throws what head_scores() throws, HookError for an empty list of scores and for an input that continues
/// from a prefix or a residual, and what running throws.
HeadRunsReport head_scores_report(const HookedTransformer& model, const Input& input,
                                  const HeadRunsOptions& options);

}  // namespace hooked
