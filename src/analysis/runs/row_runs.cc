#include "analysis/runs/row_runs.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "analysis/runs/standing_edits.h"
#include "analysis/runs/sweep_input.h"
#include "analysis/work/as_memory_allows.h"
#include "analysis/work/work_steps.h"

namespace hooked {
namespace {

constexpr std::int64_t kTokensPerRun = 1024;

/// Ends a run in its middle. Of no type that a hook's failure would be given a text for.
struct GivenUp {
  std::exception_ptr reason;  ///< what the caller's function threw, if it did
};

/// Asks before each layer whether the work continues after `done` rows.
Hook asking(const WorkSteps& steps, std::int64_t done) {
  return {act::resid_pre, [&steps, done](const at::Tensor&) {
            bool continues = false;
            try {
              continues = steps.continues(done);
            } catch (...) {
              throw GivenUp{std::current_exception()};
            }
            if (!continues) throw GivenUp{};
          }};
}

}  // namespace

RowRuns run_rows(const HookedTransformer& model, const Input& input, const RunOptions& options,
                 std::string_view where, const std::function<bool(const SweepProgress&)>& watch,
                 const std::function<void(const Input& some, const RunResult& result)>& use, Asked asked) {
  const SweepInput rows(model, input, where);
  const PointIndex& points = model.points();
  const bool by_row = !options.edits.empty();
  const std::int64_t most = by_row ? 1 : std::max<std::int64_t>(1, kTokensPerRun / rows.all().length());
  const WorkSteps steps(rows.rows(), watch);
  RowRuns made{.all_rows = rows.rows()};
  as_memory_allows(model.device(), where, rows.rows(), most, [&](std::int64_t begin, std::int64_t end) {
    if (!made.complete) return;
    RunOptions own = options;
    if (by_row) own.edits = edits_of_row(options.edits, points, rows.row(begin));
    const Input some = rows.of_rows(begin, end);
    if (asked == Asked::between_layers && steps.watched()) own.hooks.push_back(asking(steps, begin));
    std::optional<RunResult> result;
    try {
      result = model.run(some, own);
    } catch (const GivenUp& end_of_work) {
      if (end_of_work.reason) std::rethrow_exception(end_of_work.reason);
      made.complete = false;
      return;
    }
    use(some, *result);
    std::vector<std::string> notes = result->notes;
    // Activations that are computed when they are read could not be checked before.
    if (model.device().is_cpu()) {
      if (const auto found = result->not_finite()) notes.push_back(found->text());
    }
    for (const std::string& note : notes) {
      if (std::find(made.notes.begin(), made.notes.end(), note) == made.notes.end())
        made.notes.push_back(note);
    }
    made.rows = end;
    made.complete = steps.done(end);
  });
  return made;
}

}  // namespace hooked
