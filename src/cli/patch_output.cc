// The numbers of a sweep, by metric, for each pair or over all pairs, unchanged or rescaled; and how they are
// shown.
#include "cli/patch_output.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "cli/json_output.h"
#include "cli/output.h"
#include "core/number_text.h"
#include "hooked/engine/run_result.h"
#include "options/patch_names.h"

namespace hooked::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One number for each pair, [pair], shaped to broadcast with values [pair, ...].
at::Tensor beside(at::Tensor of_pairs, const at::Tensor& values) {
  while (of_pairs.dim() < values.dim()) of_pairs = of_pairs.unsqueeze(-1);
  return of_pairs.expand_as(values);
}

at::Tensor quotient(const at::Tensor& numbers, const at::Tensor& by) {
  return at::where(by.eq(0), at::full_like(numbers, kNan), numbers / by);
}

double mean_of(const at::Tensor& scores) { return scores.mean().item<double>(); }

// The grids of one metric of a sweep.
Json grids_json(const SweepNumbers& sweep, std::size_t metric, MetricKind kind, bool per_pair) {
  Json json = {{"metric", metric_json(kind)}};
  const auto add = [&](const char* key, PatchScale scale, bool pairs) {
    json[key] = grid_json(sweep.of_metric(metric, scale, pairs));
  };
  add("scores", PatchScale::scores, false);
  add("rescaled", PatchScale::rescaled, false);
  if (!per_pair) return json;
  add("pair_scores", PatchScale::scores, true);
  add("pair_rescaled", PatchScale::rescaled, true);
  return json;
}

Json sweep_json(const SweepNumbers& sweep, const UnpatchedScores& scores, bool per_pair) {
  auto grids = Json::array(), failed = Json::array();
  for (std::size_t i = 0; i < scores.kinds.size(); ++i)
    grids.push_back(grids_json(sweep, i, scores.kinds[i], per_pair));
  for (const FailedCell& cell : sweep.report().failed)
    failed.push_back({{"labels", cell.labels}, {"error", cell.error}});
  return {{"site", sweep.name()},
          {"source", sweep.report().source},
          {"grids", grids},
          {"runs", sweep.report().runs},
          {"seconds", sweep.report().seconds},
          {"complete", sweep.report().complete},
          {"pairs", sweep.pairs()},
          {"failed", failed}};
}

}  // namespace

SweepNumbers::SweepNumbers(std::string name, SweepReport report, const UnpatchedScores& unpatched)
    : name_(std::move(name)),
      report_(std::move(report)),
      unpatched_(unpatched),
      values_(report_.grid.values()),
      cells_(report_.grid.axes()) {
  // The grid has these axes only if they have several places.
  const auto take_axis = [&](std::string_view axis, std::int64_t dimension) {
    if (!cells_.empty() && cells_.front().name == axis) {
      cells_.erase(cells_.begin());
    } else {
      values_ = values_.unsqueeze(dimension);
    }
  };
  take_axis("metric", 0);
  take_axis("row", 1);
}

bool SweepNumbers::has_scale(std::size_t metric) const {
  const auto m = static_cast<std::int64_t>(metric);
  return unpatched_.clean[m].mean().item<double>() != unpatched_.corrupted[m].mean().item<double>();
}

bool SweepNumbers::all_finite() const {
  return std::none_of(report_.notes.begin(), report_.notes.end(),
                      [](const std::string& note) { return note.starts_with(kNotFinite); });
}

at::Tensor SweepNumbers::numbers(std::size_t metric, PatchScale scale, bool per_pair) const {
  const auto m = static_cast<std::int64_t>(metric);
  const std::int64_t pairs = per_pair ? all_pairs() : averaged();
  const auto of_pairs = [&](const at::Tensor& all) { return all[m].narrow(0, 0, pairs); };
  const at::Tensor values = of_pairs(values_);  // [pair, ...]
  if (scale == PatchScale::scores) return per_pair ? values : values.mean(0);
  const at::Tensor zero = beside(of_pairs(unpatched_.corrupted), values);
  const at::Tensor whole = beside(of_pairs(unpatched_.clean), values) - zero;
  const at::Tensor back = values - zero;
  if (per_pair) return quotient(back, whole);
  // Only the pairs that have a number there.
  const at::Tensor has_none = at::isnan(values);
  const at::Tensor shares =
      quotient(back.nan_to_num(0.0).masked_fill(has_none, 0).sum(0), whole.masked_fill(has_none, 0).sum(0));
  return leaves_out_missing() ? shares : shares.masked_fill(has_none.any(0), kNan);
}

std::vector<GridAxis> SweepNumbers::axes(bool per_pair) const {
  std::vector<GridAxis> axes = cells_;
  if (per_pair) axes.insert(axes.begin(), counted_axis("pair", all_pairs()));
  return axes;
}

std::string SweepNumbers::title(bool per_pair) const {
  const std::string what = fmt::format("Patching {} with {}", name_, report_.source);
  if (report_.complete) return what;
  if (pairs() == 0) return what + ", ended early";
  return fmt::format("{}, {} {} of {} pairs", what, per_pair ? "ended after" : "mean over", pairs(),
                     all_pairs());
}

Grid SweepNumbers::of_metric(std::size_t metric, PatchScale scale, bool per_pair) const {
  const std::string& name = unpatched_.names[metric];
  return Grid(
      numbers(metric, scale, per_pair), axes(per_pair),
      {.title = title(per_pair),
       .unit = scale == PatchScale::scores ? name : fmt::format("{}, corrupted run 0, clean run 1", name)});
}

std::vector<std::size_t> SweepNumbers::metrics() const {
  std::vector<std::size_t> all(unpatched_.names.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

at::Tensor SweepNumbers::before() const {
  return report_.unpatched.values().view({values_.size(0), all_pairs()});
}

double SweepNumbers::unpatched(std::size_t metric) const {
  return before()[static_cast<std::int64_t>(metric)].narrow(0, 0, averaged()).mean().item<double>();
}

at::Tensor SweepNumbers::unchanged() const {
  at::Tensor without = before();
  while (without.dim() < values_.dim()) without = without.unsqueeze(-1);
  return values_.eq(without).logical_or(values_.isnan()).flatten(0, 1).all(0);
}

at::Tensor SweepNumbers::unseen_keys() const {
  const auto axis = [&](std::size_t from_end) { return cells_.at(cells_.size() - from_end); };
  if (cells_.size() < 2 || axis(2).name != "query" || axis(1).name != "key" ||
      axis(1).labels != axis(2).labels)
    return {};
  const at::Tensor same = unchanged();
  const at::Tensor later = at::ones(same.sizes(), at::kBool).triu(1);
  const bool causal = same.logical_or(later.logical_not()).all().item<bool>();
  return causal && !same.all().item<bool>() ? later : at::Tensor();
}

bool SweepNumbers::lacks_only_what_is_not_there() const {
  return report_.complete && report_.failed.empty() && all_finite() && !before().isnan().any().item<bool>();
}

bool SweepNumbers::some_pairs_lack_places() const {
  const at::Tensor missing = values_.narrow(1, 0, averaged()).isnan();
  return lacks_only_what_is_not_there() && (missing.any(1) != missing.all(1)).any().item<bool>();
}

Grid SweepNumbers::of_metrics(const std::vector<std::size_t>& metrics, PatchScale scale,
                              bool per_pair) const {
  if (metrics.size() == 1) return of_metric(metrics.front(), scale, per_pair);
  std::vector<at::Tensor> values;
  GridAxis axis{.name = "metric", .labels = {}};
  for (const std::size_t metric : metrics) {
    values.push_back(numbers(metric, scale, per_pair));
    axis.labels.push_back(unpatched_.names[metric]);
  }
  auto axes = this->axes(per_pair);
  axes.insert(axes.begin(), std::move(axis));
  return Grid(at::stack(values), std::move(axes),
              {.title = title(per_pair),
               .unit = scale == PatchScale::scores ? "score" : "corrupted run 0, clean run 1"});
}

void print_unpatched(const UnpatchedScores& scores, const std::string& of_pairs, bool per_pair) {
  const std::int64_t pairs = scores.clean.size(1);
  Table table({{of_pairs}, {"clean run", Align::right}, {"corrupted run", Align::right}});
  for (std::size_t i = 0; i < scores.names.size(); ++i) {
    const auto m = static_cast<std::int64_t>(i);
    std::vector<std::pair<double, double>> rows;  // clean and corrupted
    if (!per_pair || pairs == 1) {
      rows.emplace_back(mean_of(scores.clean[m]), mean_of(scores.corrupted[m]));
    } else {
      for (std::int64_t pair = 0; pair < pairs; ++pair)
        rows.emplace_back(mean_of(scores.clean[m][pair]), mean_of(scores.corrupted[m][pair]));
    }
    std::vector<double> numbers;
    for (const auto& [clean, corrupted] : rows) numbers.insert(numbers.end(), {clean, corrupted});
    const auto number = ColumnFormat::of(numbers, 4);
    for (std::size_t pair = 0; pair < rows.size(); ++pair) {
      table.add({rows.size() == 1 ? scores.names[i] : fmt::format("{} of pair {}", scores.names[i], pair),
                 number(rows[pair].first), number(rows[pair].second)});
    }
  }
  table.print();
}

// Places that cannot exist, such as a path from a later layer or a key after its query, are blank, as in
// pictures. Other numbers that are missing are `nan`.
void print_cells(const SweepNumbers& sweep, const Grid& grid) {
  if (!sweep.lacks_only_what_is_not_there() || sweep.some_pairs_lack_places()) return print_printed(grid);
  print_blanked(grid, sweep.unseen_keys());
}

void print_sweep(const SweepNumbers& sweep, const UnpatchedScores& scores, bool per_pair) {
  const bool some = sweep.pairs() > 0 && sweep.pairs() < sweep.all_pairs();
  if (some && !per_pair) {
    // What the means that follow are to be compared with.
    UnpatchedScores of_these = scores;
    for (at::Tensor* side : {&of_these.clean, &of_these.corrupted}) *side = side->narrow(1, 0, sweep.pairs());
    fmt::print("\n");
    print_unpatched(of_these, fmt::format("{} of {} pairs", sweep.pairs(), sweep.all_pairs()), per_pair);
  }
  for (std::size_t i = 0; i < scores.names.size(); ++i) {
    const Grid scored = sweep.of_metric(i, PatchScale::scores, per_pair);
    if (!sweep.report().complete && scored.values().isnan().all().item<bool>()) continue;
    fmt::print("\n");
    print_cells(sweep, scored);
    if (!per_pair && sweep.some_pairs_lack_places())
      fmt::print("nan: a place that some of the pairs lack; --per-pair has the scores of the others\n");
    fmt::print("\n");
    if (sweep.has_scale(i)) {
      print_cells(sweep, sweep.of_metric(i, PatchScale::rescaled, per_pair));
    } else {
      fmt::print("{}: the clean and the corrupted run score the same, so that nothing can be rescaled\n",
                 scores.names[i]);
    }
  }
  for (const FailedCell& cell : sweep.report().failed)
    fmt::print("no number at {}: {}\n", fmt::join(cell.labels, ", "), cell.error);
}

Json patching_json(const std::vector<SweepNumbers>& sweeps, const UnpatchedScores& scores, bool per_pair) {
  auto unpatched = Json::array(), all = Json::array();
  for (std::size_t i = 0; i < scores.kinds.size(); ++i) {
    const auto m = static_cast<std::int64_t>(i);
    Json one = {{"metric", metric_json(scores.kinds[i])},
                {"clean", number_json(scores.clean[m].mean().item<double>())},
                {"corrupted", number_json(scores.corrupted[m].mean().item<double>())}};
    if (per_pair) {
      one["pair_clean"] = numbers_json(scores.clean[m]);
      one["pair_corrupted"] = numbers_json(scores.corrupted[m]);
    }
    unpatched.push_back(std::move(one));
  }
  for (const SweepNumbers& sweep : sweeps) all.push_back(sweep_json(sweep, scores, per_pair));
  return {{"pairs", scores.clean.size(1)}, {"unpatched", unpatched}, {"sweeps", all}};
}

}  // namespace hooked::cli
