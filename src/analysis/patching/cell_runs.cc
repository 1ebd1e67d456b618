#include "analysis/patching/cell_runs.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "analysis/patching/score_table.h"
#include "analysis/runs/run_places.h"
#include "analysis/runs/standing_edits.h"
#include "analysis/work/as_memory_allows.h"
#include "core/parallel.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

// Runs that are prepared at a time: enough that threads end at about the same time.
constexpr std::int64_t kRunsOfAThread = 8;
// The most memory for runs that are computed at the same time.
constexpr std::int64_t kBytesBesideOneAnother = std::int64_t{1} << 30;

constexpr const char* kSweep = "sweep";
constexpr std::int64_t kAllRows = std::numeric_limits<std::int64_t>::max();

/// One sweep while it runs.
class RunningSweep {
 public:
  RunningSweep(const CellsOfRows& sweep, OnFailure on_failure)
      : sweep_(sweep),
        on_failure_(on_failure),
        metrics_(bound_metrics(sweep.model, sweep.options.metric, sweep.into.all())),
        metric_checked_(metrics_.size(), 0),
        points_(sweep.model.points()),
        table_(sweep) {}

  CellScores run();

 private:
  /// One row while it is swept.
  struct RunningRow {
    SweptRow row;
    std::int64_t place;  ///< where its numbers go: its index among the rows that are swept
    const RowMetrics& metrics;
    const PatchedRuns& runs;
    const std::vector<RunPlace>& places;
  };

  /// A group's patches, and the runs that compute them.
  struct PatchedGroup {
    CellPatches made;
    std::vector<PatchedRuns::Batch> batches;
  };

  bool run_row(SweptRow swept, std::int64_t place);
  std::optional<PatchedGroup> patch_group(const RunningRow& row, std::size_t group);
  /// Whether several threads may compute runs.
  bool beside_one_another() const;
  bool run_groups(const RunningRow& row, const std::vector<PatchedGroup>& groups);
  void take(const RunningRow& row, const std::vector<std::int64_t>& cells, const RunResult* run);
  void score(const RunningRow& row, const std::vector<std::int64_t>& cells, const RunResult& run);
  void score_one_by_one(const RunningRow& row, std::size_t metric, const std::vector<std::int64_t>& cells,
                        const RunResult& run);
  bool is_done(const RunningRow& row, std::int64_t cell) const { return table_.is_done(row.place, cell); }
  void add_notes(const RunResult& run);
  CellScores& scores() { return table_.scores(); }

  const CellsOfRows& sweep_;
  OnFailure on_failure_;
  std::vector<BoundMetric> metrics_;
  std::vector<char> metric_checked_;
  PointIndex points_;
  ScoreTable table_;
  std::atomic<std::int64_t> rows_at_once_ = kAllRows;  // fewer once memory has run out
};

CellScores RunningSweep::run() {
  const ThreadLimit limit(sweep_.options.threads);
  try {
    for (std::size_t place = 0; place < sweep_.rows.size() && scores().complete; ++place) {
      const auto number = static_cast<std::int64_t>(place);
      const bool all = with_memory(memory_of_analysis(sweep_.model.device(), kSweep),
                                   [&] { return run_row(sweep_.into.row(sweep_.rows[place]), number); });
      scores().complete = all || table_.all_done();
      if (all || table_.is_done(number)) scores().rows = number + 1;
    }
  } catch (...) {
    try {
      table_.save();
    } catch (const Error&) {
      // The error that ended the sweep says more than one from its file.
    }
    throw;
  }
  table_.save();
  std::sort(scores().failures.begin(), scores().failures.end(), [](const auto& a, const auto& b) {
    return std::tie(a.row, a.cell, a.metric) < std::tie(b.row, b.cell, b.metric);
  });
  scores().seconds = table_.seconds();
  return scores();
}

bool RunningSweep::run_row(SweptRow swept, std::int64_t place) {
  const RowMetrics metrics(metrics_, swept.number);
  RunOptions run = metrics.needs(
      {.hooks = sweep_.options.hooks, .edits = edits_of_row(sweep_.options.edits, points_, swept)});
  // What comes after a row's last token changes nothing, unless a metric looks at whole activations.
  const bool with_padding_behind = !RowMetrics::read_places_only(metrics_) || !run.edits.empty() ||
                                   !run.hooks.empty() || !sweep_.model.hooks().empty();
  const Input input = sweep_.into.of_row(swept.number, with_padding_behind);
  swept.without = sweep_.into.all().length() - input.length();
  const PatchedRuns::Options patching{.run = std::move(run), .tokens_per_run = sweep_.options.tokens_per_run};
  const std::vector<ActivationName> kept = sweep_.plan.kept();
  const PatchedRuns runs(sweep_.model, input, kept, patching);
  add_notes(runs.unpatched());
  const std::vector<RunPlace> places =
      run_places(runs, sweep_.model, sweep_.options.replicas, input, kept, patching);
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const double now = metrics.scores(m, runs.unpatched(), 1).item<double>();
    table_.put_unpatched(static_cast<std::int64_t>(m), place, now,
                         fmt::format("the unpatched {} of row {}", metrics.metric(m).name(), swept.number));
  }
  std::int64_t runs_at_once = beside_one_another() ? kRunsOfAThread * at::get_num_threads() : 1;
  if (places.size() > 1) runs_at_once = kRunsOfAThread * static_cast<std::int64_t>(places.size());
  const RunningRow row{swept, place, metrics, runs, places};
  std::vector<PatchedGroup> groups;
  std::int64_t ready = 0;
  for (std::size_t group = 0; group < sweep_.plan.groups.size(); ++group) {
    if (auto patched = patch_group(row, group)) {
      ready += static_cast<std::int64_t>(patched->batches.size());
      groups.push_back(std::move(*patched));
    }
    if (ready < runs_at_once && group + 1 < sweep_.plan.groups.size()) continue;
    if (!run_groups(row, groups)) return false;
    groups.clear();
    ready = 0;
  }
  return true;
}

bool RunningSweep::beside_one_another() const {
  return sweep_.options.hooks.empty() && sweep_.model.hooks().empty() && sweep_.model.device().is_cpu() &&
         at::get_num_threads() > 1;
}

std::optional<RunningSweep::PatchedGroup> RunningSweep::patch_group(const RunningRow& row,
                                                                    std::size_t group) {
  const std::vector<std::int64_t>& all = sweep_.plan.groups[group].cells;
  const bool any_left = std::any_of(all.begin(), all.end(), [&](auto cell) { return !is_done(row, cell); });
  // Earlier numbers must come from the same patched-in values as now.
  if (!any_left && !table_.has_file()) return std::nullopt;
  CellPatches made = sweep_.plan.groups[group].patches(row.runs, row.row);
  table_.put_size(row.place, group, made.patches);
  // Padding and places that the layer lacks have no number.
  std::vector<std::int64_t> without = all, with = made.cells;
  std::sort(without.begin(), without.end());
  std::sort(with.begin(), with.end());
  std::vector<std::int64_t> numberless;
  std::set_difference(without.begin(), without.end(), with.begin(), with.end(),
                      std::back_inserter(numberless));
  table_.mark_done(row.place, numberless);

  std::vector<PatchedRuns::Batch> batches = row.runs.batches(made.patches);
  return PatchedGroup{std::move(made), std::move(batches)};
}

// Note [Runs beside one another]
// A patched run of a few hundred tokens keeps one thread busy, but not several: its many small operators are
// not parallel, and in the others the threads wait for one another. So if there are at least twice as many
// runs as threads, and their memory allows it, each thread takes whole runs. Hooks are called by the caller's
// thread, metrics and progress by one thread at a time. Replicas of the model take runs likewise, with one
// thread each. How runs are computed does not depend on which of them a partial file already has, so a
// resumed sweep gives the same bits, unless memory ran out in between: then fewer rows are computed together
// from there on.
bool RunningSweep::run_groups(const RunningRow& row, const std::vector<PatchedGroup>& groups) {
  std::vector<std::pair<const CellPatches*, const PatchedRuns::Batch*>> work;
  for (const PatchedGroup& group : groups) {
    for (const PatchedRuns::Batch& batch : group.batches) work.emplace_back(&group.made, &batch);
  }
  std::mutex one_at_a_time;
  bool going = true, threw = false;
  const auto run_some = [&](const CellPatches& made, const PatchedRuns::Batch& batch, const RunPlace& place) {
    std::vector<std::int64_t> cells;
    for (const PatchedRuns::Row& patched : batch.rows) cells.push_back(made.cells[patched.patch]);
    {
      const std::lock_guard lock(one_at_a_time);
      const auto left = [&](std::int64_t cell) { return !is_done(row, cell); };
      if (!going || threw || std::none_of(cells.begin(), cells.end(), left)) return;
    }
    std::optional<RunResult> run;
    if (batch.changes) run = place.run(made.patches, batch);
    const std::lock_guard lock(one_at_a_time);
    if (threw) return;
    try {
      if (run) add_notes(*run);
      take(row, cells, run ? &*run : nullptr);
      if (going) {
        table_.save_now_and_then();
        going = !sweep_.options.progress || sweep_.options.progress(table_.progress()) || table_.all_done();
      }
    } catch (const std::exception& error) {
      threw = !tells_of_memory(error);
      throw;
    } catch (...) {
      threw = true;
      throw;
    }
  };
  const auto run_batch = [&](std::int64_t number, const RunPlace& place) {
    const CellPatches& made = *work[static_cast<std::size_t>(number)].first;
    const PatchedRuns::Batch& batch = *work[static_cast<std::size_t>(number)].second;
    const auto count = static_cast<std::int64_t>(batch.rows.size());
    const std::int64_t fit =
        as_memory_allows(place.device, kSweep, count, rows_at_once_,
                         [&](auto begin, auto end) { run_some(made, batch.part(begin, end), place); });
    rows_at_once_ = std::min(rows_at_once_.load(), fit);
  };
  std::int64_t computed = 0, largest = 0;
  for (const auto& [made, batch] : work) {
    computed += batch->changes ? 1 : 0;
    largest = std::max(largest, row.runs.bytes(*batch));
  }
  const std::int64_t count = static_cast<std::int64_t>(work.size()), threads = at::get_num_threads();
  const bool beside =
      beside_one_another() && computed >= 2 * threads && threads * largest <= kBytesBesideOneAnother;
  for_each_run(count, row.places, beside, run_batch);
  return going;
}

void RunningSweep::take(const RunningRow& row, const std::vector<std::int64_t>& cells, const RunResult* run) {
  const std::size_t failures = scores().failures.size();
  if (run != nullptr) {
    try {
      score(row, cells, *run);
    } catch (...) {
      scores().failures.resize(failures);  // what is retried with fewer rows is listed again
      throw;
    }
    scores().runs += static_cast<std::int64_t>(cells.size());
  } else {
    for (std::int64_t m = 0; m < std::ssize(metrics_); ++m) {
      const double same = scores().unpatched[m][row.place].item<double>();
      for (const std::int64_t cell : cells) table_.of(m, row.place)[cell] = same;
    }
  }
  table_.mark_done(row.place, cells);
  // A resumed sweep tries these again.
  for (std::size_t i = failures; i < scores().failures.size(); ++i)
    table_.mark_failed(row.place, scores().failures[i].cell);
}

void RunningSweep::score(const RunningRow& row, const std::vector<std::int64_t>& cells,
                         const RunResult& run) {
  for (std::size_t m = 0; m < metrics_.size(); ++m) {
    at::Tensor made;
    try {
      if (metric_checked_[m] == 0) row.metrics.require_rowwise(m, row.runs.unpatched(), run);
      metric_checked_[m] = 1;
      made = row.metrics.scores(m, run, static_cast<std::int64_t>(cells.size()));
    } catch (const std::exception& error) {
      if (on_failure_ == OnFailure::throws || tells_of_memory(error)) throw;
      score_one_by_one(row, m, cells, run);
      continue;
    }
    double* const by_cell = table_.of(static_cast<std::int64_t>(m), row.place);
    for (std::size_t i = 0; i < cells.size(); ++i) by_cell[cells[i]] = made.const_data_ptr<double>()[i];
  }
}

void RunningSweep::score_one_by_one(const RunningRow& row, std::size_t metric,
                                    const std::vector<std::int64_t>& cells, const RunResult& run) {
  const auto number = static_cast<std::int64_t>(metric);
  double* const by_cell = table_.of(number, row.place);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    try {
      by_cell[cells[i]] = row.metrics.score_alone(metric, run, static_cast<std::int64_t>(i)).item<double>();
    } catch (const std::exception& error) {
      if (tells_of_memory(error)) throw;
      scores().failures.push_back({number, row.place, cells[i], error.what()});
    }
  }
}

void RunningSweep::add_notes(const RunResult& run) {
  std::vector<std::string>& notes = scores().notes;
  for (const std::string& note : run.notes) {
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
}

}  // namespace

CellScores run_cells(const CellsOfRows& sweep, OnFailure on_failure) {
  for (const std::int64_t row : sweep.rows) sweep.plan.check(sweep.into.row(row));
  return RunningSweep(sweep, on_failure).run();
}

}  // namespace hooked
