#include "analysis/patching/score_table.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/runs/source_reader.h"
#include "analysis/values/fingerprint.h"
#include "analysis/values/numberless.h"
#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/provenance.h"
#include "hooked/io/safetensors.h"
#include "io/files/replaceable.h"

namespace hooked {
namespace {

// What a kill loses at most. Where the disk is fast it loses less: saving takes a hundredth of the time at
// most.
constexpr std::chrono::seconds kLongestBetweenSaves{30};
constexpr std::chrono::milliseconds kShortestBetweenSaves{100};
constexpr int kTimesASave = 100;
constexpr const char* kRecord = "sweep";

std::string text_of(const Edit& edit, const PointIndex& points) {
  std::vector<std::string> names;
  for (const std::size_t point : edit.target.where.resolve(points, Reach::everything(points)))
    names.push_back(points.name(point).to_string());
  const auto* value = std::get_if<at::Tensor>(&edit.value);
  return fmt::format(
      "{}{} {} {}", fmt::join(names, ","), edit.target.indices.to_string(), static_cast<int>(edit.kind),
      value != nullptr ? fingerprint(*value) : fmt::format("{}", std::get<double>(edit.value)));
}

/// A metric's name, places and answers; the computation of a callable has no text.
std::string text_of(const Metric& metric, const HookedTransformer& model, std::int64_t rows) {
  std::vector<std::string> parts{metric.name()};
  for (const Position& position : metric.definition().positions) parts.push_back(position.label());
  for (const Answers& given : metric.definition().answers) {
    const Answers answers = given.in(model);
    for (std::int64_t row = 0; row < std::max<std::int64_t>(1, answers.rows()) && row < rows; ++row)
      parts.push_back(fmt::format("{}", fmt::join(answers.of_row(row), "+")));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

bool is_own_partial(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  const auto provenance = read_provenance(file);
  return !provenance.hooked_version.empty() && provenance.more.contains(kRecord);
}

/// One number that sums up all that is patched in, in this order.
double size_of_patches(const std::vector<Patch>& patches) {
  double sum = 0, weight = 1;
  for (const Patch& patch : patches) {
    for (const PatchedBlock& block : patch) {
      sum += weight * block.value.to(at::kDouble).square().sum().item<double>();
      weight = weight < 2 ? weight + 0.01 : 1;
    }
  }
  return std::sqrt(sum);
}

std::map<std::string, std::string> sweep_record(const CellsOfRows& sweep) {
  const auto& [model, options, into, plan, rows] = sweep;
  const Provenance provenance = model.provenance();
  const PointIndex& points = model.points();
  std::vector<std::string> processing, metrics, edits;
  for (const auto& [step, outcome] : provenance.processing) processing.push_back(step + ": " + outcome);
  for (const Metric& metric : options.metric) metrics.push_back(text_of(metric, model, into.rows()));
  for (const Edit& edit : options.edits) edits.push_back(text_of(edit, points));
  const Input& input = into.all();
  return {
      {"config", provenance.config_sha1},
      {"dtype", provenance.dtype},
      {"processing", fmt::format("{}", fmt::join(processing, ", "))},
      {"places", plan.record},
      {"rows", fmt::format("{}", fmt::join(rows, ", "))},
      {"tokens", fmt::format("{} {} {} {} {}", fingerprint(input.tokens), fingerprint(input.attention_mask),
                             fingerprint(input.token_types), fingerprint(input.decoder.tokens),
                             fingerprint(input.decoder.attention_mask))},
      {"source", SourceReader::record(options.from, plan.patched)},
      {"metrics", fmt::format("{}", fmt::join(metrics, ", "))},
      {"hooks", fmt::format("{}", options.hooks.size() + model.hooks().size())},
      {"edits", fmt::format("{}", fmt::join(edits, "; "))},
      {"tokens_per_run", std::to_string(options.tokens_per_run)}};
}

}  // namespace

void require_can_keep(const std::filesystem::path& partial) {
  require_replaceable(
      partial,
      {.name = "the partial file of a sweep", .endings = {".safetensors"}, .is_ours = is_own_partial},
      Overwrite::ours);
}

ScoreTable::ScoreTable(const CellsOfRows& sweep) : cells_(sweep.plan.cells()), file_(sweep.options.partial) {
  const auto metrics = std::ssize(sweep.options.metric), rows = std::ssize(sweep.rows);
  scores_.scores = numberless({metrics, rows, cells_});
  scores_.done = at::zeros({rows, cells_}, at::kBool);
  scores_.unpatched = numberless({metrics, rows});
  scores_.sizes = numberless({rows, std::ssize(sweep.plan.groups)});
  if (has_file()) {
    record_ = sweep_record(sweep);
    require_can_keep(file_);
    load();
    save();
  }
  done_ = scores_.done.mutable_data_ptr<bool>();
  // Cells without a group have no patch: layers without the site.
  std::vector<char> in_a_group(static_cast<std::size_t>(cells_), 0);
  for (const CellGroup& group : sweep.plan.groups) {
    for (const std::int64_t cell : group.cells) in_a_group[static_cast<std::size_t>(cell)] = 1;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t cell = 0; cell < cells_; ++cell)
      if (in_a_group[static_cast<std::size_t>(cell)] == 0) done_[row * cells_ + cell] = true;
  }
  n_done_ = std::count(done_, done_ + rows * cells_, true);
  n_done_before_ = n_done_;
}

void ScoreTable::load() {
  if (!std::filesystem::exists(file_)) return;
  const auto file = SafetensorsFile::open(file_);
  Json record;
  try {
    record = parse_json(file.metadata().at(kRecord), {.bytes = std::size_t{1} << 28});
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(file_.string(), fmt::format("the record of the sweep is damaged ({}); expected the "
                                                      "file as the sweep wrote it",
                                                      error.what()));
  }
  for (const auto& [key, value] : record_) {
    const bool there = record.is_object() && record.contains(key) && record[key].is_string();
    const std::string other = there ? record[key].get<std::string>() : "nothing";
    if (there && other == value) continue;
    throw CheckpointError(file_.string(),
                          fmt::format("this is the partial file of another sweep: its {} differ; expected "
                                      "'{}', got '{}'; remove the file or name another",
                                      key, printable(value), printable(other)));
  }
  const auto take = [&](at::Tensor& now, const at::Tensor& then) {
    if (now.sizes() != then.sizes() || now.scalar_type() != then.scalar_type()) {
      throw CheckpointError(file_.string(),
                            "the tensors of the partial file have other shapes; expected the file as the "
                            "sweep wrote it");
    }
    now = then;
  };
  take(scores_.scores, file.read("scores"));
  take(scores_.done, file.read("done").to(at::kBool));
  take(scores_.unpatched, file.read("unpatched"));
  take(scores_.sizes, file.read("sizes"));
}

void ScoreTable::save() {
  const Clock::time_point before = Clock::now();
  if (has_file()) {
    require_can_keep(file_);
    save_safetensors(file_,
                     {{"scores", scores_.scores},
                      {"done", scores_.done.to(at::kByte)},
                      {"unpatched", scores_.unpatched},
                      {"sizes", scores_.sizes}},
                     {.metadata = to_metadata({.more = {{kRecord, json_text(Json(record_))}}}, {})});
  }
  saved_ = Clock::now();  // after it: a slow disk must not make each batch save again
  between_saves_ = std::clamp<Clock::duration>(kTimesASave * (saved_ - before), kShortestBetweenSaves,
                                               kLongestBetweenSaves);
}

void ScoreTable::save_now_and_then() {
  if (has_file() && Clock::now() - saved_ > between_saves_) save();
}

/// Stores a number. NaN in the file matches any.
void ScoreTable::put(double& kept, double now, std::string_view what) const {
  const double rounding = std::max(1e-7, 1e-4 * std::max(std::abs(kept), std::abs(now)));
  if (has_file() && !std::isnan(kept) && kept != now && !(std::abs(kept - now) <= rounding)) {
    throw CheckpointError(file_.string(),
                          fmt::format("{} was {} when the file was written and is {} now; expected "
                                      "the same model, source, hooks and metrics; remove the file "
                                      "or name another",
                                      what, kept, now));
  }
  kept = now;
}

void ScoreTable::put_unpatched(std::int64_t metric, std::int64_t row, double score, std::string_view what) {
  put(scores_.unpatched[metric].mutable_data_ptr<double>()[row], score, what);
}

void ScoreTable::put_size(std::int64_t row, std::size_t group, const std::vector<Patch>& patches) {
  if (!has_file()) return;
  put(scores_.sizes[row].mutable_data_ptr<double>()[group], size_of_patches(patches),
      "the size of what is patched in");
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
