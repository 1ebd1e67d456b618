#include "analysis/cell_runs.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "analysis/as_memory_allows.h"
#include "analysis/numberless.h"
#include "analysis/partial_scores.h"
#include "analysis/run_places.h"
#include "analysis/standing_edits.h"
#include "core/parallel.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kBetweenSaves{30};
// Runs that are made ready at a time: enough that threads end about together.
constexpr std::int64_t kRunsOfAThread = 8;
// What runs that are under way at the same time may take.
constexpr std::int64_t kBytesBesideOneAnother = std::int64_t{1} << 30;

constexpr const char* kSweep = "sweep";
constexpr std::int64_t kAllRows = std::numeric_limits<std::int64_t>::max();

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One sweep while it runs.
class RunningSweep {
 public:
  RunningSweep(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
               const CellPlan& plan, OnFailure on_failure)
      : model_(model),
        options_(options),
        into_(into),
        plan_(plan),
        on_failure_(on_failure),
        metrics_(bound_metrics(model, options.metric, into.all())),
        points_(model.config()) {}

  /// Throws before anything runs where a row cannot be patched.
  CellScores run(const std::vector<std::int64_t>& rows);

 private:
  /// Where one row's numbers go: its place among the rows that are swept.
  struct RowOfScores {
    SweptRow row;
    std::int64_t place;
  };

  /// A group's patches, and the runs that make them up.
  struct PatchedGroup {
    CellPatches made;
    std::vector<PatchedRuns::Batch> batches;
  };

  void begin(const std::vector<std::int64_t>& rows);
  bool run_row(RowOfScores row);
  std::optional<PatchedGroup> patch_group(RowOfScores row, std::size_t group, const PatchedRuns& runs);
  /// Whether several threads may compute runs.
  bool beside_one_another() const;
  bool run_groups(RowOfScores row, const std::vector<PatchedGroup>& groups, const PatchedRuns& runs,
                  const std::vector<RunPlace>& places, const RowMetrics& metrics);
  void take(RowOfScores row, const std::vector<std::int64_t>& cells, const RunResult* run,
            const RunResult& unpatched, const RowMetrics& metrics);
  void score(RowOfScores row, const std::vector<std::int64_t>& cells, const RunResult& run,
             const RunResult& unpatched, const RowMetrics& metrics);
  void score_one_by_one(RowOfScores row, std::int64_t metric, const std::vector<std::int64_t>& cells,
                        const RunResult& run, const RowMetrics& metrics);
  void fill_unpatched(RowOfScores row, const std::vector<std::int64_t>& cells);
  bool go_on();
  bool is_done(RowOfScores row, std::int64_t cell) const { return done_[row.place * cells_ + cell]; }
  void mark_done(RowOfScores row, const std::vector<std::int64_t>& cells);
  void add_notes(const RunResult& run);
  double* scores_of(std::int64_t metric, RowOfScores row) {
    return scores_.scores[metric][row.place].mutable_data_ptr<double>();
  }

  const HookedTransformer& model_;
  const SweepOptions& options_;
  const SweepInput& into_;
  const CellPlan& plan_;
  OnFailure on_failure_;
  std::vector<BoundMetric> metrics_;
  PointIndex points_;
  std::int64_t cells_ = 0;
  CellScores scores_;
  std::optional<PartialScores> file_;
  bool* done_ = nullptr;  // scores_.done
  std::int64_t n_done_ = 0, n_done_before_ = 0;
  std::vector<char> metric_checked_;
  std::atomic<std::int64_t> rows_at_once_ = kAllRows;  // fewer once memory has run out
  Clock::time_point began_ = Clock::now(), saved_ = Clock::now();
};

void RunningSweep::begin(const std::vector<std::int64_t>& rows) {
  cells_ = plan_.cells();
  const auto n_rows = static_cast<std::int64_t>(rows.size());
  const auto n_metrics = static_cast<std::int64_t>(metrics_.size());
  scores_.scores = numberless({n_metrics, n_rows, cells_});
  scores_.done = at::zeros({n_rows, cells_}, at::kBool);
  scores_.unpatched = numberless({n_metrics, n_rows});
  scores_.sizes = numberless({n_rows, static_cast<std::int64_t>(plan_.groups.size())});
  if (!options_.partial.empty()) {
    file_.emplace(options_.partial, record_of(model_, options_, into_, plan_, rows));
    if (auto before = file_->load()) {
      for (const auto& [now, then] : {std::pair{&scores_.scores, &before->scores},
                                      {&scores_.done, &before->done},
                                      {&scores_.unpatched, &before->unpatched},
                                      {&scores_.sizes, &before->sizes}}) {
        if (now->sizes() != then->sizes() || now->scalar_type() != then->scalar_type()) {
          throw CheckpointError(options_.partial.string(),
                                "the tensors of the partial file have other shapes; expected the file as the "
                                "sweep wrote it");
        }
        *now = *then;
      }
    }
  }
  // What cannot be written is better known now than after the work.
  if (file_) file_->save(scores_);
  done_ = scores_.done.mutable_data_ptr<bool>();
  // No patch belongs to cells of no group: layers without the site.
  std::vector<char> in_a_group(static_cast<std::size_t>(cells_), 0);
  for (const CellGroup& group : plan_.groups) {
    for (const std::int64_t cell : group.cells) in_a_group[static_cast<std::size_t>(cell)] = 1;
  }
  for (std::int64_t row = 0; row < n_rows; ++row) {
    for (std::int64_t cell = 0; cell < cells_; ++cell)
      if (in_a_group[static_cast<std::size_t>(cell)] == 0) done_[row * cells_ + cell] = true;
  }
  n_done_ = std::count(done_, done_ + n_rows * cells_, true);
  n_done_before_ = n_done_;
  metric_checked_.assign(metrics_.size(), 0);
}

CellScores RunningSweep::run(const std::vector<std::int64_t>& rows) {
  const ThreadLimit limit(options_.threads);
  for (const std::int64_t row : rows) plan_.check(into_.row(row));
  begin(rows);
  try {
    for (std::size_t place = 0; place < rows.size() && scores_.complete; ++place) {
      const RowOfScores row{into_.row(rows[place]), static_cast<std::int64_t>(place)};
      const bool all = with_memory(memory_of_analysis(model_.device(), kSweep), [&] { return run_row(row); });
      scores_.complete = all || n_done_ == scores_.done.numel();
      if (all || scores_.done[row.place].all().item<bool>()) scores_.rows = row.place + 1;
    }
  } catch (...) {
    try {
      if (file_) file_->save(scores_);
    } catch (const Error&) {
      // What ended the sweep says more than what its file says now.
    }
    throw;
  }
  if (file_) file_->save(scores_);
  std::sort(scores_.failures.begin(), scores_.failures.end(), [](const auto& a, const auto& b) {
    return std::tie(a.row, a.cell, a.metric) < std::tie(b.row, b.cell, b.metric);
  });
  scores_.seconds = seconds_since(began_);
  return scores_;
}

bool RunningSweep::run_row(RowOfScores row) {
  const RowMetrics metrics(metrics_, row.row.number);
  RunOptions run =
      metrics.needs({.hooks = options_.hooks, .edits = edits_of_row(options_.edits, points_, row.row)});
  // What lies behind a row's last token changes nothing, unless a metric looks at whole activations.
  const bool with_padding_behind = !RowMetrics::read_places_only(metrics_) || !run.edits.empty() ||
                                   !run.hooks.empty() || !model_.hooks().empty();
  const Input input = into_.of_row(row.row.number, with_padding_behind);
  row.row.without = into_.all().length() - input.length();
  const PatchedRuns::Options patching{.run = std::move(run), .tokens_per_run = options_.tokens_per_run};
  const std::vector<ActivationName> kept = plan_.kept();
  const PatchedRuns runs(model_, input, kept, patching);
  add_notes(runs.unpatched());
  const std::vector<RunPlace> places = run_places(runs, model_, options_.replicas, input, kept, patching);
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const double now = metrics.scores(m, runs.unpatched(), 1).item<double>();
    double& kept = scores_.unpatched[static_cast<std::int64_t>(m)].mutable_data_ptr<double>()[row.place];
    if (file_) {
      file_->require_same(
          kept, now, fmt::format("the unpatched {} of row {}", metrics.metric(m).name(), row.row.number));
    }
    kept = now;
  }
  std::int64_t runs_at_once = beside_one_another() ? kRunsOfAThread * at::get_num_threads() : 1;
  if (places.size() > 1) runs_at_once = kRunsOfAThread * static_cast<std::int64_t>(places.size());
  std::vector<PatchedGroup> groups;
  std::int64_t ready = 0;
  for (std::size_t group = 0; group < plan_.groups.size(); ++group) {
    if (auto patched = patch_group(row, group, runs)) {
      ready += static_cast<std::int64_t>(patched->batches.size());
      groups.push_back(std::move(*patched));
    }
    if (ready < runs_at_once && group + 1 < plan_.groups.size()) continue;
    if (!run_groups(row, groups, runs, places, metrics)) return false;
    groups.clear();
    ready = 0;
  }
  return true;
}

bool RunningSweep::beside_one_another() const {
  return options_.hooks.empty() && model_.hooks().empty() && model_.device().is_cpu() &&
         at::get_num_threads() > 1;
}

std::optional<RunningSweep::PatchedGroup> RunningSweep::patch_group(RowOfScores row, std::size_t group,
                                                                    const PatchedRuns& runs) {
  const std::vector<std::int64_t>& all = plan_.groups[group].cells;
  const bool any_left = std::any_of(all.begin(), all.end(), [&](auto cell) { return !is_done(row, cell); });
  // What was done before must have been patched from what is patched now.
  if (!any_left && !file_) return std::nullopt;
  CellPatches made = plan_.groups[group].patches(runs, row.row);
  if (file_) {
    double& kept = scores_.sizes[row.place].mutable_data_ptr<double>()[group];
    const double now = size_of(made.patches);
    file_->require_same(kept, now, "the size of what is patched in");
    kept = now;
  }
  // Padding and places that the layer lacks have no number.
  std::vector<std::int64_t> without = all, with = made.cells;
  std::sort(without.begin(), without.end());
  std::sort(with.begin(), with.end());
  std::vector<std::int64_t> numberless;
  std::set_difference(without.begin(), without.end(), with.begin(), with.end(),
                      std::back_inserter(numberless));
  mark_done(row, numberless);

  std::vector<PatchedRuns::Batch> batches = runs.batches(made.patches);
  return PatchedGroup{std::move(made), std::move(batches)};
}

// Note [Runs beside one another]
// A patched run of some hundred tokens keeps one thread busy, but not several: its many small operators are
// not shared, and of the others the threads wait for one another. So where there are at least twice as many
// runs as threads, and their memory allows it, each thread takes whole runs. Hooks are called by the caller's
// thread, metrics and progress by one thread at a time. Replicas of the model take runs likewise, a thread
// each. How runs are computed does not depend on which of
// them a partial file holds already, so that a resumed sweep gives the same bits, unless memory ran out
// meanwhile: then fewer rows are computed together from there on.
bool RunningSweep::run_groups(RowOfScores row, const std::vector<PatchedGroup>& groups,
                              const PatchedRuns& runs, const std::vector<RunPlace>& places,
                              const RowMetrics& metrics) {
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
      take(row, cells, run ? &*run : nullptr, runs.unpatched(), metrics);
      if (going) going = go_on();
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
    largest = std::max(largest, runs.bytes(*batch));
  }
  const std::int64_t count = static_cast<std::int64_t>(work.size()), threads = at::get_num_threads();
  const bool beside =
      beside_one_another() && computed >= 2 * threads && threads * largest <= kBytesBesideOneAnother;
  for_each_run(count, places, beside, run_batch);
  return going;
}

void RunningSweep::take(RowOfScores row, const std::vector<std::int64_t>& cells, const RunResult* run,
                        const RunResult& unpatched, const RowMetrics& metrics) {
  const std::size_t failures = scores_.failures.size();
  if (run != nullptr) {
    try {
      score(row, cells, *run, unpatched, metrics);
    } catch (...) {
      scores_.failures.resize(failures);  // what is tried again with fewer rows is listed again
      throw;
    }
    scores_.runs += static_cast<std::int64_t>(cells.size());
  } else {
    fill_unpatched(row, cells);
  }
  mark_done(row, cells);
  // A sweep that is resumed tries these again.
  for (std::size_t i = failures; i < scores_.failures.size(); ++i)
    done_[row.place * cells_ + scores_.failures[i].cell] = false;
}

void RunningSweep::fill_unpatched(RowOfScores row, const std::vector<std::int64_t>& cells) {
  for (std::int64_t m = 0; m < static_cast<std::int64_t>(metrics_.size()); ++m) {
    const double same = scores_.unpatched[m][row.place].item<double>();
    for (const std::int64_t cell : cells) scores_of(m, row)[cell] = same;
  }
}

void RunningSweep::score(RowOfScores row, const std::vector<std::int64_t>& cells, const RunResult& run,
                         const RunResult& unpatched, const RowMetrics& metrics) {
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const auto metric = static_cast<std::int64_t>(m);
    at::Tensor made;
    try {
      if (metric_checked_[m] == 0) metrics.require_rowwise(m, unpatched, run);
      metric_checked_[m] = 1;
      made = metrics.scores(m, run, static_cast<std::int64_t>(cells.size()));
    } catch (const std::exception& error) {
      if (on_failure_ == OnFailure::throws || tells_of_memory(error)) throw;
      score_one_by_one(row, metric, cells, run, metrics);
      continue;
    }
    double* const scores = scores_of(metric, row);
    for (std::size_t i = 0; i < cells.size(); ++i) scores[cells[i]] = made.const_data_ptr<double>()[i];
  }
}

void RunningSweep::score_one_by_one(RowOfScores row, std::int64_t metric,
                                    const std::vector<std::int64_t>& cells, const RunResult& run,
                                    const RowMetrics& metrics) {
  double* const scores = scores_of(metric, row);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    try {
      scores[cells[i]] =
          metrics.score_alone(static_cast<std::size_t>(metric), run, static_cast<std::int64_t>(i))
              .item<double>();
    } catch (const std::exception& error) {
      if (tells_of_memory(error)) throw;
      scores_.failures.push_back({metric, row.place, cells[i], error.what()});
    }
  }
}

void RunningSweep::mark_done(RowOfScores row, const std::vector<std::int64_t>& cells) {
  for (const std::int64_t cell : cells) {
    bool& done = done_[row.place * cells_ + cell];
    n_done_ += done ? 0 : 1;
    done = true;
  }
}

void RunningSweep::add_notes(const RunResult& run) {
  std::vector<std::string>& notes = scores_.notes;
  for (const std::string& note : run.notes) {
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
}

bool RunningSweep::go_on() {
  if (file_ && Clock::now() - saved_ > kBetweenSaves) {
    file_->save(scores_);
    saved_ = Clock::now();
  }
  if (!options_.progress) return true;
  SweepProgress progress{.done = n_done_,
                         .total = scores_.done.numel(),
                         .seconds = seconds_since(began_),
                         .seconds_left = std::nullopt};
  const auto made = static_cast<double>(n_done_ - n_done_before_);
  if (made > 0)
    progress.seconds_left = progress.seconds / made * static_cast<double>(progress.total - n_done_);
  return options_.progress(progress) || n_done_ == progress.total;
}

}  // namespace

CellScores run_cells(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                     const CellPlan& plan, const std::vector<std::int64_t>& rows, OnFailure on_failure) {
  return RunningSweep(model, options, into, plan, on_failure).run(rows);
}

}  // namespace hooked
