#include "cli/patch_output.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <sstream>
#include <utility>

#include "cli/output.h"
#include "core/unsigned_nan.h"
#include "options/patch_names.h"

namespace hooked::cli {
namespace {

std::string mean_text(const at::Tensor& scores) {
  return fmt::format("{:.4f}", unsigned_nan(scores.mean().item<double>()));
}

void print_grid(const Grid& grid) {
  std::ostringstream text;
  text << grid;
  fmt::print("\n{}", text.str());
}

// Nested arrays as in a grid's own JSON: NaN is null.
Json values_json(const Grid& grid) {
  const std::string text = grid.to_json();
  return std::move(parse_json(text, {.bytes = text.size()})["values"]);
}

Json number_json(double number) { return values_json(Grid(at::scalar_tensor(number, at::kDouble), {}, {})); }

Json row_json(const at::Tensor& scores) {
  auto numbers = Json::array();
  for (std::int64_t i = 0; i < scores.size(0); ++i) numbers.push_back(number_json(scores[i].item<double>()));
  return numbers;
}

// One metric of a sweep.
Json metric_json(const SweepNumbers& sweep, std::size_t metric, MetricKind kind, bool per_pair) {
  Json json = {{"metric", metric_name(kind).name},
               {"values", values_json(sweep.of_metric(metric, PatchScale::scores, false))},
               {"rescaled", values_json(sweep.of_metric(metric, PatchScale::rescaled, false))}};
  if (!per_pair) return json;
  json["pair_values"] = values_json(sweep.of_metric(metric, PatchScale::scores, true));
  json["pair_rescaled"] = values_json(sweep.of_metric(metric, PatchScale::rescaled, true));
  return json;
}

Json sweep_json(const SweepNumbers& sweep, const UnpatchedScores& scores, bool per_pair) {
  const Grid grid = sweep.of_metric(0, PatchScale::scores, false);
  auto axes = Json::array(), labels = Json::array(), metrics = Json::array(), failed = Json::array();
  for (const GridAxis& axis : grid.axes()) {
    axes.push_back(axis.name);
    labels.push_back(axis.labels);
  }
  for (std::size_t i = 0; i < scores.kinds.size(); ++i)
    metrics.push_back(metric_json(sweep, i, scores.kinds[i], per_pair));
  for (const FailedCell& cell : sweep.report().failed)
    failed.push_back({{"labels", cell.labels}, {"error", cell.error}});
  return {{"site", sweep.name()},
          {"source", sweep.report().source},
          {"axes", axes},
          {"labels", labels},
          {"values", metrics[0]["values"]},
          {"rescaled", metrics[0]["rescaled"]},
          {"metrics", metrics},
          {"runs", sweep.report().runs},
          {"seconds", sweep.report().seconds},
          {"complete", sweep.report().complete},
          {"pairs", sweep.pairs()},
          {"failed", failed}};
}

}  // namespace

void print_unpatched(const UnpatchedScores& scores, bool per_pair) {
  const std::int64_t pairs = scores.clean.size(1);
  Table table({{pairs > 1 ? fmt::format("{} pairs", pairs) : ""},
               {"clean run", Align::right},
               {"corrupted run", Align::right}});
  for (std::size_t i = 0; i < scores.names.size(); ++i) {
    const auto m = static_cast<std::int64_t>(i);
    if (!per_pair || pairs == 1) {
      table.add({scores.names[i], mean_text(scores.clean[m]), mean_text(scores.corrupted[m])});
      continue;
    }
    for (std::int64_t pair = 0; pair < pairs; ++pair)
      table.add({fmt::format("{} of pair {}", scores.names[i], pair), mean_text(scores.clean[m][pair]),
                 mean_text(scores.corrupted[m][pair])});
  }
  table.print();
}

void print_sweep(const SweepNumbers& sweep, const UnpatchedScores& scores, bool per_pair) {
  for (std::size_t i = 0; i < scores.names.size(); ++i) {
    print_grid(sweep.of_metric(i, PatchScale::scores, per_pair));
    if (sweep.has_scale(i)) {
      print_grid(sweep.of_metric(i, PatchScale::rescaled, per_pair));
    } else {
      fmt::print("\n{}: the clean and the corrupted run score the same, so that nothing can be rescaled\n",
                 scores.names[i]);
    }
  }
  for (const FailedCell& cell : sweep.report().failed)
    fmt::print("no number at {}: {}\n", fmt::join(cell.labels, ", "), cell.error);
}

Json patching_json(const std::vector<SweepNumbers>& sweeps, const UnpatchedScores& scores, bool per_pair) {
  auto metrics = Json::array(), all = Json::array();
  for (std::size_t i = 0; i < scores.kinds.size(); ++i) {
    const auto m = static_cast<std::int64_t>(i);
    Json metric = {{"metric", metric_name(scores.kinds[i]).name},
                   {"clean", number_json(scores.clean[m].mean().item<double>())},
                   {"corrupted", number_json(scores.corrupted[m].mean().item<double>())}};
    if (per_pair) {
      metric["pair_clean"] = row_json(scores.clean[m]);
      metric["pair_corrupted"] = row_json(scores.corrupted[m]);
    }
    metrics.push_back(std::move(metric));
  }
  for (const SweepNumbers& sweep : sweeps) all.push_back(sweep_json(sweep, scores, per_pair));
  return {{"metric", metrics[0]["metric"]},
          {"clean", metrics[0]["clean"]},
          {"corrupted", metrics[0]["corrupted"]},
          {"sweeps", all},
          {"metrics", metrics},
          {"pairs", scores.clean.size(1)}};
}

}  // namespace hooked::cli
