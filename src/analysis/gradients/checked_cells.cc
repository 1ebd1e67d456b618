#include "analysis/gradients/checked_cells.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace hooked {
namespace {

constexpr double kNoEffect = std::numeric_limits<double>::quiet_NaN();

/// Cells by their numbers among those of all rows.
struct Chosen {
  std::vector<std::int64_t> largest, drawn;
};

Chosen choose(const at::Tensor& estimates, const CheckedEstimates& ask) {
  const auto* numbers = estimates.const_data_ptr<double>();
  std::vector<std::int64_t> cells;
  for (std::int64_t i = 0; i < estimates.numel(); ++i) {
    if (!std::isnan(numbers[i])) cells.push_back(i);
  }
  const auto count = static_cast<std::int64_t>(cells.size());
  const std::int64_t top = std::min(ask.count, count);
  std::stable_sort(cells.begin(), cells.end(),
                   [&](auto a, auto b) { return std::abs(numbers[a]) > std::abs(numbers[b]); });
  Chosen chosen{.largest = {cells.begin(), cells.begin() + top}, .drawn = {}};
  // The draw depends only on which cells are the largest, not on roundings of the remaining ones.
  std::sort(cells.begin() + top, cells.end());
  std::mt19937_64 draw(ask.seed);
  for (std::int64_t i = top; i < std::min(2 * top, count); ++i) {
    // One of the remaining ones changes places with the first of them.
    const auto left = static_cast<std::uint64_t>(count - i);
    std::swap(cells[static_cast<std::size_t>(i)], cells[static_cast<std::size_t>(i) + draw() % left]);
    chosen.drawn.push_back(cells[static_cast<std::size_t>(i)]);
  }
  return chosen;
}

/// A plan with some of another plan's cells.
CellPlan part_of(const CellPlan& plan, const std::set<std::int64_t>& kept) {
  CellPlan part = plan;
  part.groups.clear();
  for (const CellGroup& group : plan.groups) {
    CellGroup some = group;
    std::erase_if(some.cells, [&](std::int64_t cell) { return !kept.contains(cell); });
    if (some.cells.empty()) continue;
    some.patches = [kept, patches = group.patches](const PatchedRuns& runs, SweptRow row) {
      CellPatches all = patches(runs, row), made;
      for (std::size_t i = 0; i < all.cells.size(); ++i) {
        if (!kept.contains(all.cells[i])) continue;
        made.cells.push_back(all.cells[i]);
        made.patches.push_back(std::move(all.patches[i]));
      }
      return made;
    };
    part.groups.push_back(std::move(some));
  }
  return part;
}

double median_size(const std::vector<CheckedCell>& cells) {
  std::vector<double> sizes;
  for (const CheckedCell& cell : cells) {
    if (!cell.drawn) sizes.push_back(std::abs(cell.effect));
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes.empty() ? std::numeric_limits<double>::infinity() : sizes[sizes.size() / 2];
}

/// Pearson's correlation of two lists of numbers; NaN if one of them has no two different ones.
double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto count = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : kNoEffect;
}

}  // namespace

AttributionCheck check_estimates(const CheckedEstimates& ask) {
  const at::Tensor estimates = ask.estimates.contiguous();
  const std::int64_t cells = estimates.size(1);
  const Chosen chosen = choose(estimates, ask);
  std::map<std::int64_t, std::set<std::int64_t>> by_row;
  for (const auto* some : {&chosen.largest, &chosen.drawn}) {
    for (const std::int64_t number : *some) by_row[number / cells].insert(number % cells);
  }
  AttributionCheck check{.cells = {}, .correlation = kNoEffect, .missed = {}, .runs = 0};
  std::map<std::int64_t, double> effects;  // by the numbers of cells among those of all rows
  std::int64_t before = 0;
  bool going = true;
  for (const auto& [row, of_row] : by_row) {
    check.complete = going;
    if (!going) break;
    const CellEffects made = ask.effects(row, of_row, [&](std::int64_t of_these) {
      going = ask.report(before + of_these);
      return going;
    });
    std::int64_t place = 0;
    for (const std::int64_t cell : of_row) effects[row * cells + cell] = made.values[place++].item<double>();
    before += std::ssize(of_row);
    check.complete = made.complete;
    going = going && made.complete;
  }
  const auto effect_of = [&](std::int64_t number) {
    const auto made = effects.find(number);
    return made == effects.end() ? kNoEffect : made->second;
  };
  const auto add = [&](const std::vector<std::int64_t>& some, bool drawn) {
    for (const std::int64_t number : some) {
      const std::int64_t row = number / cells, cell = number % cells;
      GridPlace at = ask.layout.place(0, row, cell);
      check.cells.push_back({.index = std::move(at.index),
                             .labels = std::move(at.labels),
                             .estimate = estimates[row][cell].item<double>(),
                             .effect = effect_of(number),
                             .drawn = drawn});
    }
  };
  add(chosen.largest, false);
  add(chosen.drawn, true);
  if (!check.complete) return check;

  std::vector<double> x, y;
  for (const CheckedCell& cell : check.cells) {
    x.push_back(cell.estimate);
    y.push_back(ask.sizes ? std::abs(cell.effect) : cell.effect);
  }
  check.correlation = correlation(x, y);
  const double typical = median_size(check.cells);
  std::copy_if(check.cells.begin(), check.cells.end(), std::back_inserter(check.missed),
               [&](const CheckedCell& cell) { return cell.drawn && std::abs(cell.effect) > typical; });
  return check;
}

AttributionCheck check_cells(const HookedTransformer& model, const AttributionPatchingOptions& options,
                             const EstimatedPlan& made) {
  SweepOptions exact = options.sweep;
  exact.metric = Metrics(options.sweep.metric.front());
  std::int64_t runs = 0;
  const auto effects = [&](std::int64_t row, const std::set<std::int64_t>& cells,
                           const ReportChecked& report) -> CellEffects {
    exact.progress = [&](const SweepProgress& now) {
      return report(std::ssize(cells) - (now.total - now.done));  // the other cells of the row count as done
    };
    const CellPlan part = part_of(made.plan, cells);
    const std::int64_t number = made.layout.rows()[static_cast<std::size_t>(row)];
    const CellScores scores = run_cells({model, exact, made.into, part, {number}}, OnFailure::throws);
    runs += scores.runs;
    const std::vector<std::int64_t> places(cells.begin(), cells.end());
    const at::Tensor changes = scores.scores[0][0] - scores.unpatched[0][0];
    return {changes.index_select(0, at::tensor(places, at::kLong)), scores.complete};
  };
  AttributionCheck check = check_estimates({.estimates = made.estimates,
                                            .layout = made.layout,
                                            .count = options.check,
                                            .seed = options.seed,
                                            .sizes = options.drop_layers,
                                            .effects = effects,
                                            .report = made.report});
  check.runs = runs;
  return check;
}

AttributionPatchingReport estimate_report(const SweepLayout& layout, const CellScores& made,
                                          std::int64_t gradient_runs) {
  SweepReport laid = layout.report(made);
  return {.grid = std::move(laid.grid),
          .unpatched = std::move(laid.unpatched),
          .check = std::nullopt,
          .gradient_runs = gradient_runs,
          .seconds = 0,
          .complete = made.complete,
          .rows = made.rows};
}

}  // namespace hooked
