// Sweeps: each cell by a run of its own, patched by hand.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <sstream>

#include "tests/combinations/points.h"
#include "tests/combinations/sweep_parts.h"
#include "tests/support/temp_folder.h"

namespace hooked::combinations {
namespace {

constexpr std::int64_t kCells = 12;

SweepReport run_sweep(const Subject& subject, const HookedTransformer& model, Comparison& comparison) {
  const Sweep& sweep = subject.combination().sweep;
  SweepOptions options = sweep_options(subject);
  if (!sweep.resumed_after) return sweep_report(model, options);
  const TempFolder folder;
  options.partial = folder / "partial.safetensors";
  std::int64_t runs = 0;
  options.progress = [&](const SweepProgress&) { return ++runs < *sweep.resumed_after; };
  const SweepReport ended = sweep_report(model, options);
  options.progress = nullptr;
  if (sweep.other_source) options.from = PatchSource::value(0.123);
  SweepReport whole = sweep_report(model, options);
  // Cells that a stopped sweep reached have their numbers, and the rest none.
  const at::Tensor there = ended.grid.values().isfinite();
  if (!ended.grid.values().masked_select(there).equal(whole.grid.values().masked_select(there)))
    comparison.differs("an ended sweep has other numbers than the whole one");
  return whole;
}

/// A NaN is printed without a sign.
void expect_no_signed_nan(const Grid& grid, Comparison& comparison) {
  std::ostringstream text;
  text << grid;
  for (const std::string& printed : {text.str(), grid.to_csv(), grid.to_json()}) {
    if (printed.find("-nan") != std::string::npos) comparison.differs("-nan is printed: " + printed);
  }
}

}  // namespace

void compare_sweep(const Subject& subject, Comparison& comparison) {
  const Combination& c = subject.combination();
  const Subject::Attached handle = subject.attached(c.changes);
  const SweepReport report = run_sweep(subject, handle.model, comparison);
  expect_no_signed_nan(report.unpatched, comparison);
  const OracleSource source(subject);
  const bool several = c.rows() > 1;
  const std::vector<std::int64_t> sizes = report.grid.values().sizes().vec();
  for (const Row& row : subject.rows()) {
    const auto r = static_cast<std::size_t>(row.index);
    comparison.expect_number("unpatched", report.unpatched.values().reshape({-1})[row.index].item<double>(),
                             score_of(subject, row, subject.runs()[r]));
  }
  std::vector<std::vector<bool>> fits(subject.rows().size(),
                                      std::vector<bool>(static_cast<std::size_t>(source.draws()), true));
  for (const auto& index : some_cells(sizes, kCells)) {
    const Row& row = subject.rows()[several ? static_cast<std::size_t>(index.front()) : 0];
    const auto r = static_cast<std::size_t>(row.index);
    const Cell cell = cell_at(subject, row, {index.begin() + (several ? 1 : 0), index.end()});
    const double got = report.grid.at(index);
    const std::string what = fmt::format("cell {}", index);
    if (!cell.exists) {
      comparison.expect_number(what, got, std::nan(""));
      continue;
    }
    const auto expected = [&](std::int64_t draw) {
      auto changes = subject.changes_of(row);
      changes.push_back(patch_of(source, cell, row, {.draw = draw}));
      return score_of(subject, row, subject.oracle().run(row, changes));
    };
    if (source.draws() == 1) {
      comparison.expect_number(what, got, expected(0));
      continue;
    }
    // The engine says which row was drawn; it is the same one for all cells of a row.
    bool any = false;
    for (std::int64_t draw = 0; draw < source.draws(); ++draw) {
      Comparison one;
      one.expect_number(what, got, expected(draw));
      const auto d = static_cast<std::size_t>(draw);
      fits[r][d] = fits[r][d] && one.outcome().difference.empty();
      any = any || fits[r][d];
    }
    if (!any) comparison.differs(fmt::format("{}: got {}, which no row of the data gives", what, got));
  }
}

}  // namespace hooked::combinations
