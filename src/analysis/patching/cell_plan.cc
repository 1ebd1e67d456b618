#include "analysis/patching/cell_plan.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "analysis/patching/site_cells.h"
#include "analysis/patching/table_cells.h"
#include "analysis/values/row_major.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// The number of a cell of a smaller plan among the cells of larger axes.
std::int64_t moved(std::int64_t cell, const std::vector<GridAxis>& small,
                   const std::vector<GridAxis>& large) {
  std::int64_t number = 0;
  const std::vector<std::int64_t> index = index_of(cell, small);
  for (std::size_t i = 0; i < large.size(); ++i) number = number * places_on(large[i]) + index[i];
  return number;
}

std::vector<bool> real_columns(const TokenColumns& columns, std::int64_t row) {
  std::vector<bool> real;
  for (std::int64_t column = columns.first; column < columns.end; ++column)
    real.push_back(!columns.is_padding(row, column));
  return real;
}

/// Whether `over` names an axis other than that of rows.
bool names_axes(const SweepOptions& options) {
  return std::any_of(options.over.begin(), options.over.end(),
                     [](const SweptAxis& axis) { return axis.axis != Axis::batch; });
}

}  // namespace

std::int64_t CellPlan::cells() const {
  std::int64_t cells = 1;
  for (const GridAxis& axis : axes) cells *= places_on(axis);
  return cells;
}

std::vector<ActivationName> CellPlan::kept() const {
  std::vector<ActivationName> names = patched;
  names.insert(names.end(), read.begin(), read.end());
  return names;
}

bool says_what_is_patched(const SweepOptions& options) {
  return options.site || !options.table.empty() || options.stack != Stack::none || names_axes(options);
}

CellPlan make_plan(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into,
                   std::int64_t heads) {
  if (options.table.empty() ? !options.site
                            : options.site || names_axes(options) || options.stack != Stack::none) {
    throw HookError("sweep",
                    fmt::format("{}; expected either `site` and `over`, or `table`",
                                options.table.empty()
                                    ? "nothing says what is patched"
                                    : "`table` is set together with `site`, `stack` or axes in `over`"));
  }
  if (std::any_of(options.table.begin(), options.table.end(), [](const auto& cell) { return cell.empty(); }))
    throw HookError("sweep", "a row of the table is empty; expected at least one address in each");
  return options.table.empty() ? cells_of_site(model, options, into, heads)
                               : cells_of_table(model, options, into);
}

at::Tensor masked_keys(const ActivationName& name, const PatchedRuns& runs) {
  const auto scores = scores_behind(name);
  return scores ? runs.value(*scores).eq(row(scores->site).unseen) : at::Tensor();
}

CellPlan stacked(std::vector<CellPlan> plans, const std::string& name,
                 const std::vector<std::string>& labels) {
  CellPlan all{
      .axes = plans.front().axes, .patched = {}, .groups = {}, .check = nullptr, .title = {}, .record = {}};
  std::vector<std::function<void(SweptRow)>> checks;
  for (const CellPlan& plan : plans) checks.push_back(plan.check);
  all.check = [checks](SweptRow row) {
    for (const auto& check : checks) check(row);
  };
  for (const CellPlan& plan : plans) {
    for (std::size_t i = 0; i < all.axes.size(); ++i) {
      if (places_on(plan.axes[i]) > places_on(all.axes[i])) all.axes[i] = plan.axes[i];
    }
  }
  const std::int64_t cells = all.cells();
  std::vector<std::string> records;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const std::int64_t before = static_cast<std::int64_t>(p) * cells;
    const std::vector<GridAxis> own = plans[p].axes;
    const auto add_names = [](const std::vector<ActivationName>& names, std::vector<ActivationName>& to) {
      for (const ActivationName& name : names) {
        if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
      }
    };
    add_names(plans[p].patched, all.patched);
    add_names(plans[p].read, all.read);
    records.push_back(plans[p].record);
    for (CellGroup& group : plans[p].groups) {
      const auto number = [before, own, large = all.axes](std::int64_t cell) {
        return before + moved(cell, own, large);
      };
      std::vector<std::int64_t> numbers;
      for (const std::int64_t cell : group.cells) numbers.push_back(number(cell));
      all.groups.push_back(
          {std::move(numbers),
           [number, patches = std::move(group.patches)](const PatchedRuns& runs, SweptRow row) {
             CellPatches made = patches(runs, row);
             for (std::int64_t& cell : made.cells) cell = number(cell);
             return made;
           },
           std::move(group.reads)});
    }
  }
  all.axes.insert(all.axes.begin(), {.name = name, .labels = labels});
  all.record = fmt::format("{}", fmt::join(records, "; "));
  return all;
}

void require_same_columns(const PatchSource& from, const SweepInput& into, const TokenAxis& axis,
                          SweptRow row) {
  const auto source = SourceReader::columns(from, axis, row);
  if (!source) return;
  const auto here = real_columns(into.columns(counts_source(axis.name, axis.axis)), row.number);
  const auto there = real_columns(source->columns, source->row);
  if (here == there) return;
  const auto text = [](const std::vector<bool>& real) {
    return fmt::format("{} columns, {} of them tokens", real.size(),
                       std::count(real.begin(), real.end(), true));
  };
  throw HookError(axis.name.to_string(),
                  fmt::format("`from` does not fit `into` in row {}; expected {} in the same places, got {}; "
                              "where prompts differ in length give the places to patch, each with its own in "
                              "`from`",
                              row.number, text(here), text(there)));
}

}  // namespace hooked
