#include "analysis/patching/score_table.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "analysis/values/numberless.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr std::chrono::seconds kBetweenSaves{30};

}  // namespace

ScoreTable::ScoreTable(const CellPlan& plan, Size size, std::optional<PartialScores> file)
    : cells_(plan.cells()), file_(std::move(file)) {
  scores_.scores = numberless({size.metrics, size.rows, cells_});
  scores_.done = at::zeros({size.rows, cells_}, at::kBool);
  scores_.unpatched = numberless({size.metrics, size.rows});
  scores_.sizes = numberless({size.rows, static_cast<std::int64_t>(plan.groups.size())});
  if (file_) {
    if (auto before = file_->load()) take_over(std::move(*before), *file_);
    file_->save(scores_);
  }
  done_ = scores_.done.mutable_data_ptr<bool>();
  // Cells without a group have no patch: layers without the site.
  std::vector<char> in_a_group(static_cast<std::size_t>(cells_), 0);
  for (const CellGroup& group : plan.groups) {
    for (const std::int64_t cell : group.cells) in_a_group[static_cast<std::size_t>(cell)] = 1;
  }
  for (std::int64_t row = 0; row < size.rows; ++row) {
    for (std::int64_t cell = 0; cell < cells_; ++cell)
      if (in_a_group[static_cast<std::size_t>(cell)] == 0) done_[row * cells_ + cell] = true;
  }
  n_done_ = std::count(done_, done_ + size.rows * cells_, true);
  n_done_before_ = n_done_;
}

void ScoreTable::take_over(CellScores before, const PartialScores& file) {
  for (const auto& [now, then] : {std::pair{&scores_.scores, &before.scores},
                                  {&scores_.done, &before.done},
                                  {&scores_.unpatched, &before.unpatched},
                                  {&scores_.sizes, &before.sizes}}) {
    if (now->sizes() != then->sizes() || now->scalar_type() != then->scalar_type()) {
      throw CheckpointError(file.path().string(),
                            "the tensors of the partial file have other shapes; expected the file as the "
                            "sweep wrote it");
    }
    *now = *then;
  }
}

double* ScoreTable::of(std::int64_t metric, std::int64_t row) {
  return scores_.scores[metric][row].mutable_data_ptr<double>();
}

bool ScoreTable::is_done(std::int64_t row) const { return scores_.done[row].all().item<bool>(); }

void ScoreTable::mark_done(std::int64_t row, const std::vector<std::int64_t>& cells) {
  for (const std::int64_t cell : cells) {
    bool& done = done_[row * cells_ + cell];
    n_done_ += done ? 0 : 1;
    done = true;
  }
}

void ScoreTable::put_unpatched(std::int64_t metric, std::int64_t row, double score, std::string_view what) {
  double& kept = scores_.unpatched[metric].mutable_data_ptr<double>()[row];
  if (file_) file_->require_same(kept, score, what);
  kept = score;
}

void ScoreTable::put_size(std::int64_t row, std::size_t group, const std::vector<Patch>& patches) {
  if (!file_) return;
  double& kept = scores_.sizes[row].mutable_data_ptr<double>()[group];
  const double now = size_of(patches);
  file_->require_same(kept, now, "the size of what is patched in");
  kept = now;
}

void ScoreTable::save() {
  if (file_) file_->save(scores_);
  saved_ = Clock::now();
}

void ScoreTable::save_now_and_then() {
  if (file_ && Clock::now() - saved_ > kBetweenSaves) save();
}

double ScoreTable::seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

SweepProgress ScoreTable::progress() const {
  SweepProgress progress{
      .done = n_done_, .total = scores_.done.numel(), .seconds = seconds(), .seconds_left = std::nullopt};
  const auto made = static_cast<double>(n_done_ - n_done_before_);
  if (made > 0)
    progress.seconds_left = progress.seconds / made * static_cast<double>(progress.total - n_done_);
  return progress;
}

}  // namespace hooked
