// The cells of a sweep that are given explicitly as addresses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analysis/patching/cell_plan.h"
#include "analysis/places/row_columns.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

/// Cells, and the addresses that they are made of, each once: sets of parts have most of them in common.
struct Table {
  std::vector<Address> addresses;
  std::vector<std::vector<std::size_t>> cells;  ///< by the numbers of their addresses
};

/// `index` as numbers from 0 on, in a row whose last token is at `last`.
AxisIndex numbers_of(const AxisIndex& index, const AxisPlace& place, std::int64_t last) {
  if (std::holds_alternative<AxisIndex::Last>(index.value)) return last;
  std::vector<std::int64_t> places = resolve_places(index, place);
  if (std::holds_alternative<std::int64_t>(index.value)) return places.front();
  return places;
}

/// An address's index on an axis of its site, or null.
const AxisIndex* index_on(const Address& address, Axis axis) {
  for (const auto& [named, index] : address.indices().entries()) {
    if (axis_on(address.name().site, named) == axis) return &index;
  }
  return nullptr;
}

/// One row's block of an address: its place in `into` and in `from`; nothing if that is padding.
std::optional<PatchedPlace> place_of(const Address& address, const SweepOptions& options,
                                     const SweepInput& into, const at::Tensor& unpatched, SweptRow row) {
  const ActivationName& name = address.name();
  const SiteRow& site = hooked::row(name.site);
  const std::string where = address.to_string();
  PatchedPlace place;
  for (std::size_t dim = 1; dim < site.axes.size(); ++dim) {
    const Axis axis = site.axes[dim];
    const AxisIndex* index = index_on(address, axis);
    if (index == nullptr) continue;
    const bool is_last = std::holds_alternative<AxisIndex::Last>(index->value);
    const std::int64_t size = unpatched.size(static_cast<std::int64_t>(dim));
    if (!counts_tokens(axis)) {
      const AxisIndex numbers = numbers_of(*index, {{name.site, where, {}}, axis, size}, 0);
      place.into.add(axis, numbers);
      place.from.add(axis, numbers);
      continue;
    }
    const TokenColumns columns = into.columns(counts_source(name, axis));
    const std::int64_t last =
        is_last ? columns.last(row.of)[row.number].item<std::int64_t>() : columns.end - 1;
    const AxisIndex numbers = numbers_of(*index, {{name.site, where, {}}, axis, columns.end}, last);
    const auto from = SourceReader::columns(options.from, {name, axis}, row);
    place.into.add(axis, numbers);
    place.from.add(axis, is_last && from
                             ? AxisIndex(Position::last().column_in(from->row, from->rows, from->columns))
                             : numbers);
    const auto is_padding = [&](std::int64_t column) { return columns.is_padding(row.number, column); };
    const auto* one = std::get_if<std::int64_t>(&numbers.value);
    const auto* several = std::get_if<std::vector<std::int64_t>>(&numbers.value);
    if (one != nullptr ? is_padding(*one) : std::any_of(several->begin(), several->end(), is_padding))
      return std::nullopt;
  }
  return place;
}

/// Columns by number mean the same columns in `from`.
void require_aligned(const Table& table, const SweepOptions& options, const SweepInput& into, SweptRow row) {
  for (const Address& address : table.addresses) {
    for (const Axis axis : hooked::row(address.name().site).axes) {
      const AxisIndex* index = index_on(address, axis);
      const bool is_last = index != nullptr && std::holds_alternative<AxisIndex::Last>(index->value);
      if (counts_tokens(axis) && !is_last)
        require_same_columns(options.from, into, {address.name(), axis}, row);
    }
  }
}

CellPatches patches_of(const Table& table, const SweepOptions& options, const SweepInput& into,
                       const PatchedRuns& runs, SweptRow row) {
  std::map<ActivationName, SourceReader> readers;
  std::vector<std::optional<PatchedBlock>> blocks;  // of each address; nothing for padding
  for (const Address& address : table.addresses) {
    const ActivationName& name = address.name();
    const auto place = place_of(address, options, into, runs.value(name), row);
    blocks.emplace_back();
    if (!place) continue;
    Address put = name;
    for (const auto& [axis, index] : place->into.entries()) put = put.at(axis, index);
    const auto reader =
        readers.try_emplace(name, options.from, name, runs.value(name), row, masked_keys(name, runs)).first;
    blocks.back() = {std::move(put), reader->second.block(*place)};
  }
  CellPatches made;
  for (std::size_t cell = 0; cell < table.cells.size(); ++cell) {
    Patch patch;
    for (const std::size_t address : table.cells[cell]) {
      if (!blocks[address]) break;
      patch.push_back(*blocks[address]);
    }
    if (patch.size() != table.cells[cell].size()) continue;
    made.cells.push_back(static_cast<std::int64_t>(cell));
    made.patches.push_back(std::move(patch));
  }
  return made;
}

}  // namespace

CellPlan cells_of_table(const HookedTransformer& model, const SweepOptions& options, const SweepInput& into) {
  const PointIndex& points = model.points();
  CellPlan plan{.axes = {{.name = "place", .labels = {}, .places = {}}}, .title = "Patching"};
  Table table;
  std::map<std::string, std::size_t> numbers;  // of addresses
  std::set<ActivationName> names;
  CellGroup group;
  for (const std::vector<Address>& given : options.table) {
    std::vector<std::size_t>& cell = table.cells.emplace_back();
    std::vector<std::string> labels;
    for (const Address& address : given) {
      const ActivationName& name = points.name(points.require(points.resolve(address.name())));
      if (address.indices().find(Axis::batch) != nullptr || per_expert(row(name.site))) {
        throw HookError(address.to_string(),
                        "each row of `into` is swept separately, and an expert's tokens are not rows; "
                        "expected an address without a batch row, of a site outside the experts");
      }
      Address full = name;
      for (const auto& [axis, index] : address.indices().entries()) full = full.at(axis, index);
      labels.push_back(full.to_string());
      if (names.insert(name).second) {
        plan.patched.push_back(name);
        if (const auto scores = scores_behind(name)) plan.read.push_back(*scores);
      }
      const auto [number, is_new] = numbers.try_emplace(labels.back(), table.addresses.size());
      cell.push_back(number->second);
      if (is_new) table.addresses.push_back(std::move(full));
    }
    plan.axes.front().labels.push_back(fmt::format("{}", fmt::join(labels, " + ")));
    plan.axes.front().places.push_back(cell.size() == 1 ? std::optional(table.addresses[cell.front()])
                                                        : std::nullopt);
    group.cells.push_back(static_cast<std::int64_t>(group.cells.size()));
  }
  plan.record = fmt::format("{}", fmt::join(plan.axes.front().labels, ", "));
  group.patches = [table, options, into](const PatchedRuns& runs, SweptRow row) {
    return patches_of(table, options, into, runs, row);
  };
  group.reads = plan.patched;
  plan.groups.push_back(std::move(group));
  plan.check = [table, options, into](SweptRow row) { require_aligned(table, options, into, row); };
  return plan;
}

}  // namespace hooked
