#include "analysis/patching/cell_plan.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/values/row_major.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

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

CellGroup renumbered(CellGroup group, std::function<std::int64_t(std::int64_t cell)> number) {
  for (std::int64_t& cell : group.cells) cell = number(cell);
  group.patches = [number = std::move(number), patches = std::move(group.patches)](const PatchedRuns& runs,
                                                                                   SweptRow row) {
    CellPatches made = patches(runs, row);
    for (std::int64_t& cell : made.cells) cell = number(cell);
    return made;
  };
  return group;
}

SweepOptions rows_alone(SweepOptions options) {
  std::erase_if(options.over, [](const SweptAxis& axis) { return axis.axis != Axis::batch; });
  return options;
}

bool says_what_is_patched(const SweepOptions& options) {
  return options.site || !options.table.empty() || options.stack != Stack::none || names_axes(options);
}

void require_own_places(const SweepOptions& options, const char* where, const char* what) {
  if (!says_what_is_patched(options)) return;
  throw HookError(where, fmt::format("{}; expected neither `site`, `table`, `stack` nor axes in `over` but "
                                     "batch",
                                     what));
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

std::pair<std::int64_t, std::int64_t> columns_of_place(const SweptPlace& place, SweptRow row,
                                                       const TokenColumns& here,
                                                       const std::optional<SourceReader::RowOfRun>& from) {
  const std::int64_t into = place.into.column_in(row.number, row.of, here);
  // A name with a column per row of `into` does not apply to a run with other rows.
  const bool same =
      place.from == place.into && !place.from.named_columns().empty() && from && from->rows != row.of;
  return {into, !from || same ? into : place.from.column_in(from->row, from->rows, from->columns)};
}

at::Tensor masked_keys(const ActivationName& name, const PatchedRuns& runs) {
  const auto scores = scores_behind(name);
  return scores ? runs.value(*scores).eq(row(scores->site).unseen) : at::Tensor();
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
