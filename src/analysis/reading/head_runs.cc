#include "hooked/analysis/head_runs.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/reading/scored_patterns.h"
#include "analysis/runs/row_runs.h"
#include "analysis/values/numberless.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr std::string_view kHeadRuns = "head_scores_report";

HeadScoreOptions how_to_score(const HeadRunsOptions& options, const Input& some) {
  HeadScoreOptions how = options.how;
  how.tokens = how.stack == Stack::encoder ? some.tokens : some.main_tokens();
  return how;
}

/// The sums of several runs concatenated, followed by `missing` rows of NaN for rows that were not run.
HeadSums joined(std::vector<HeadSums> runs, std::int64_t missing) {
  HeadSums all = std::move(runs.front());
  std::vector<at::Tensor> above{all.above}, below{all.below};
  for (std::size_t i = 1; i < runs.size(); ++i) {
    above.push_back(runs[i].above);
    below.push_back(runs[i].below);
    all.any_key = all.any_key || runs[i].any_key;
  }
  if (missing > 0) {
    const auto none = numberless({all.above.size(0), missing, all.above.size(2)}, all.above.options());
    above.push_back(none);
    below.push_back(none);
  }
  all.above = at::cat(above, 1);
  all.below = at::cat(below, 1);
  return all;
}

}  // namespace

HeadRunsReport head_scores_report(const HookedTransformer& model, const Input& input,
                                  const HeadRunsOptions& options) {
  if (options.scores.empty())
    throw HookError(kHeadRuns, "nothing says what heads are scored by; expected a score or several");
  std::vector<std::vector<HeadSums>> sums(options.scores.size());  // [score][run]
  const RunOptions run{.hooks = options.hooks,
                       .edits = options.edits,
                       .capture = Selection(options.how.site),
                       .output = Output::none};
  const RowRuns runs = run_rows(
      model, input, run, kHeadRuns, options.progress,
      [&](const Input& some, const RunResult& result) {
        auto own = head_sums(result.cache, options.scores, how_to_score(options, some));
        for (std::size_t i = 0; i < own.size(); ++i) sums[i].push_back(std::move(own[i]));
      },
      Asked::between_layers);
  HeadRunsReport report{.scores = {}, .rows = runs.rows, .complete = runs.complete, .notes = runs.notes};
  if (runs.rows == 0) return report;  // ended in the first run
  const bool each = options.how.rows == HeadRows::each;
  for (auto& of_runs : sums) {
    auto all = joined(std::move(of_runs), each ? runs.all_rows - runs.rows : 0);
    all.any_key = all.any_key || !runs.complete;  // other rows may have one
    if (!runs.complete && !each)
      all.description.title += fmt::format(", {} of {} rows", runs.rows, runs.all_rows);
    report.scores.push_back(all.scores(options.how.rows));
  }
  return report;
}

}  // namespace hooked
