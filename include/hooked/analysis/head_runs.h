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

/// What heads are scored by, and in which runs. For designated initialisers.
struct HeadRunsOptions {
  std::vector<HeadScore> scores = {};  ///< which; each has a grid
  /// How. `tokens` says nothing here: they are those of the input. Scores that look for nothing (entropy,
  /// distance) have no measure and pass it over.
  HeadScoreOptions how = {};
  std::vector<Hook> hooks = {};  ///< in force in every run, besides those that are attached
  std::vector<Edit> edits = {};  ///< in force in every run
  /// Called after some rows; false ends the work.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// Scores of heads, and how it went.
struct HeadRunsReport {
  /// One per score, as head_scores() has them. Of the rows that were run: of several together the scores of
  /// these, of each row NaN for the others.
  std::vector<Grid> scores;
  std::int64_t rows;  ///< that were run
  bool complete;      ///< not ended by `progress`
  /// What is worth knowing about how its runs were computed (RunResult::notes), each note once.
  std::vector<std::string> notes = {};
};

/// Runs an input and scores its heads, without the patterns of all rows at a time: a few rows are run
/// together, up to 1024 tokens and fewer where memory runs out, with edits one. Hooks see that many rows.
///
/// Throws what head_scores() throws, HookError for no score and for an input that goes on from a prefix or a
/// residual, and what running throws.
HeadRunsReport head_scores_report(const HookedTransformer& model, const Input& input,
                                  const HeadRunsOptions& options);

}  // namespace hooked
