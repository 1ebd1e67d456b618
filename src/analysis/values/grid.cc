#include "hooked/analysis/grid.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nanmean.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "analysis/values/place_labels.h"
#include "analysis/values/row_major.h"
#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "hooked/core/shared.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

std::vector<std::string> names_of(const std::vector<GridAxis>& axes) {
  std::vector<std::string> names;
  for (const auto& axis : axes) names.push_back(axis.name);
  return names;
}

std::vector<GridAxis> without(std::vector<GridAxis> axes, std::size_t dropped) {
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(dropped));
  return axes;
}

/// The place on another axis of each place of an axis; nothing if one is missing. Axes with the same labels
/// in the same order agree place by place; in others a label that is there twice says no place.
std::optional<std::vector<std::int64_t>> places_of(const GridAxis& axis, const GridAxis& other) {
  const std::vector<std::string> labels = place_labels(axis), among = place_labels(other);
  std::vector<std::int64_t> places(labels.size());
  std::iota(places.begin(), places.end(), std::int64_t{0});
  if (labels == among) return places;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (std::ranges::count(among, labels[i]) != 1) return std::nullopt;
    places[i] = std::ranges::find(among, labels[i]) - among.begin();
  }
  return places;
}

/// The index on an activation's axis that a label says; nothing for a place with a name.
std::optional<AxisIndex> index_of_label(const std::string& label) {
  if (const AxisIndex last{AxisIndex::Last()}; label == last.to_string()) return last;
  if (const auto number = parse_integer(label)) return AxisIndex(*number);
  return std::nullopt;
}

/// `address` with the indices of a cell on those axes of the grid that the activation has as well. Nothing if
/// one of them is a place with a name: the whole axis would be another activation.
std::optional<Address> with_indices(Address address, const GridCell& cell,
                                    const std::vector<GridAxis>& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto named = parse_axis(axes[i].name);
    const auto own = named ? axis_on(address.name().site, *named) : std::nullopt;
    if (!own || !axes[i].places.empty() || address.indices().find(*own) != nullptr) continue;
    const auto index = index_of_label(place_label(axes[i], cell.index[i]));
    if (!index) return std::nullopt;
    address = address.at(*own, *index);
  }
  return address;
}

GridCell cell_at(const Grid& grid, std::int64_t flat) {
  GridCell cell{.index = index_of(flat, grid.axes()),
                .labels = {},
                .place = std::nullopt,
                .value = grid.values().const_data_ptr<double>()[flat]};
  for (std::size_t i = 0; i < cell.index.size(); ++i) {
    const auto& axis = grid.axes()[i];
    const auto place = static_cast<std::size_t>(cell.index[i]);
    cell.labels.push_back(axis.labels[place]);
    if (!axis.places.empty() && axis.places[place]) cell.place = axis.places[place];
  }
  if (cell.place) cell.place = with_indices(*cell.place, cell, grid.axes());
  return cell;
}

/// A place on an axis, counted from its beginning.
std::int64_t checked_place(const Grid& grid, std::size_t axis, std::int64_t index) {
  const auto size = places_on(grid.axes()[axis]);
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  throw ShapeError(grid.title(), fmt::format("index {} is out of range on axis {} of size {}", index,
                                             grid.axes()[axis].name, size));
}

/// The place of a number among the values.
std::int64_t checked_flat(const Grid& grid, const std::vector<std::int64_t>& index) {
  const auto& axes = grid.axes();
  if (index.size() != axes.size())
    throw ShapeError(grid.title(), fmt::format("expected {} indices, got {}", axes.size(), index.size()));
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < index.size(); ++i)
    flat = flat * places_on(axes[i]) + checked_place(grid, i, index[i]);
  return flat;
}

/// A copy in the form in which a grid holds numbers.
at::Tensor owned(const at::Tensor& values) {
  return values.detach()
      .to(at::TensorOptions(at::kCPU).dtype(at::kDouble), /*non_blocking=*/false, /*copy=*/true)
      .contiguous();
}

/// The grid whose numbers are `change` of the numbers of another, and so are the ends of their ranges.
template <typename Change>
Grid changed(const Grid& grid, std::vector<GridAxis> axes, Grid::Description description,
             const Change& change) {
  const Grid made(change(grid.values()), std::move(axes), std::move(description));
  if (!grid.interval()) return made;
  const at::Tensor one = change(grid.interval()->low), other = change(grid.interval()->high);
  // A negative factor turns a range around.
  return made.with_interval({at::minimum(one, other), at::maximum(one, other), grid.interval()->about});
}

at::Tensor unchanged(const at::Tensor& values) { return values; }

}  // namespace

Grid::Grid(const at::Tensor& values, std::vector<GridAxis> axes, Description description)
    : values_(owned(values)), axes_(std::move(axes)), description_(std::move(description)) {
  if (static_cast<std::size_t>(values_.dim()) != axes_.size()) {
    throw ShapeError(title(), fmt::format("a grid has an axis with labels for each axis of its values; "
                                          "expected values of {} axes, got {}",
                                          axes_.size(), shape_text(values_.sizes())));
  }
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const auto& axis = axes_[i];
    const auto size = static_cast<std::size_t>(values_.size(static_cast<std::int64_t>(i)));
    if (axis.labels.size() != size) {
      throw ShapeError(
          title(), fmt::format("axis {} has {} labels; expected {}, one per place of values {}", axis.name,
                               axis.labels.size(), size, shape_text(values_.sizes())));
    }
    if (!axis.places.empty() && axis.places.size() != size) {
      throw ShapeError(title(), fmt::format("axis {} has the addresses of {} places; expected {} or none",
                                            axis.name, axis.places.size(), size));
    }
    if (!names.insert(axis.name).second) {
      throw ShapeError(title(),
                       fmt::format("two axes are named '{}'; expected a name of its own for each axis, "
                                   "got [{}]",
                                   axis.name, fmt::join(names_of(axes_), ", ")));
    }
  }
}

const at::Tensor Grid::values() const {
  if (!values_.defined()) refuse_moved_from("grid");
  return values_;
}

std::size_t Grid::axis_index(std::string_view name) const {
  const auto found =
      std::find_if(axes_.begin(), axes_.end(), [&](const GridAxis& axis) { return axis.name == name; });
  if (found != axes_.end()) return static_cast<std::size_t>(found - axes_.begin());
  throw ShapeError(title(), fmt::format("the grid has no axis '{}'; expected one of [{}]", name,
                                        fmt::join(names_of(axes_), ", ")));
}

const GridAxis& Grid::axis(std::string_view name) const& { return axes_[axis_index(name)]; }

double Grid::at(const std::vector<std::int64_t>& index) const {
  return values().const_data_ptr<double>()[checked_flat(*this, index)];
}

GridCell Grid::cell(const std::vector<std::int64_t>& index) const {
  return cell_at(*this, checked_flat(*this, index));
}

Grid Grid::slice(std::string_view axis, std::int64_t index) const {
  const auto dim = axis_index(axis);
  const auto place = checked_place(*this, dim, index);
  const auto& label = axes_[dim].labels[static_cast<std::size_t>(place)];
  return changed(*this, without(axes_, dim),
                 {.title = fmt::format("{}, {} {}", title(), axis, label), .unit = unit()},
                 [&](const at::Tensor& all) { return all.select(static_cast<std::int64_t>(dim), place); });
}

Grid Grid::slice(std::string_view axis, std::string_view label) const {
  std::vector<std::string> labels = this->axis(axis).labels;
  auto found = std::find(labels.begin(), labels.end(), label);
  if (found == labels.end()) {
    labels = place_labels(this->axis(axis));
    found = std::find(labels.begin(), labels.end(), label);
  }
  if (found == labels.end()) {
    throw ShapeError(title(), fmt::format("axis {} has no place '{}'; expected one of [{}]", axis, label,
                                          fmt::join(this->axis(axis).labels, ", ")));
  }
  if (std::find(found + 1, labels.end(), label) != labels.end()) {
    throw ShapeError(
        title(),
        fmt::format("'{}' occurs several times on axis {}; expected a label that occurs once; give the index",
                    label, axis));
  }
  return slice(axis, found - labels.begin());
}

Grid Grid::with_title(std::string title) const {
  return changed(*this, axes_, {.title = std::move(title), .unit = unit()}, unchanged);
}

Grid Grid::with_unit(std::string unit) const {
  return changed(*this, axes_, {.title = title(), .unit = std::move(unit)}, unchanged);
}

Grid Grid::with_labels(std::string_view axis, std::vector<std::string> labels) const {
  std::vector<GridAxis> axes = axes_;
  axes[axis_index(axis)].labels = std::move(labels);
  return changed(*this, std::move(axes), description_, unchanged);
}

Grid Grid::with_interval(const GridInterval& interval) const {
  for (const auto& [name, ends] : {std::pair("low", interval.low), std::pair("high", interval.high)}) {
    if (ends.defined() && ends.sizes() == values().sizes()) continue;
    throw ShapeError(title(),
                     fmt::format("'{}' of the interval does not fit the numbers; expected {}, got {}", name,
                                 shape_text(values().sizes()),
                                 ends.defined() ? shape_text(ends.sizes()) : "an undefined tensor"));
  }
  Grid made = *this;
  made.interval_ = GridInterval{owned(interval.low), owned(interval.high), interval.about};
  return made;
}

Grid Grid::mean(std::string_view axis) const {
  const auto dim = axis_index(axis);
  return Grid(at::nanmean(values(), {static_cast<std::int64_t>(dim)}), without(axes_, dim),
              {.title = fmt::format("{}, averaged over {}", title(), axis), .unit = unit()});
}

std::vector<GridCell> Grid::largest(std::size_t count, LargestBy by) const {
  const at::Tensor held = values();
  const double* numbers = held.const_data_ptr<double>();
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < held.numel(); ++i) {
    if (!std::isnan(numbers[i])) order.push_back(i);
  }
  const auto size = [&](std::int64_t i) { return by == LargestBy::size ? std::abs(numbers[i]) : numbers[i]; };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::int64_t a, std::int64_t b) {
    return size(a) != size(b) ? size(a) > size(b) : a < b;
  });
  std::vector<GridCell> cells;
  for (auto i = order.begin(); i != end; ++i) cells.push_back(cell_at(*this, *i));
  return cells;
}

Grid Grid::rescaled(double zero, double one, std::string unit) const {
  if (zero == one) {
    throw ShapeError(
        title(),
        fmt::format("no scale has 0 and 1 at the same number; expected two numbers, got {} twice", zero));
  }
  return changed(*this, axes_, {.title = title(), .unit = std::move(unit)},
                 [&](const at::Tensor& all) { return (all - zero) / (one - zero); });
}

at::Tensor Grid::aligned(const Grid& numbers) const {
  at::Tensor aligned = numbers.values();
  std::vector<std::int64_t> shape(axes_.size(), 1), order;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const auto found = std::ranges::find(numbers.axes(), axes_[i].name, &GridAxis::name);
    if (found == numbers.axes().end()) continue;
    const std::int64_t dim = found - numbers.axes().begin();
    const auto places = places_of(axes_[i], *found);
    if (!places) {
      throw ShapeError(
          numbers.title(),
          fmt::format("the grids have other axes; expected {} [{}], each label once, got {} [{}]",
                      axes_[i].name, fmt::join(axes_[i].labels, ", "), found->name,
                      fmt::join(found->labels, ", ")));
    }
    aligned = aligned.index_select(dim, at::tensor(*places, at::kLong));
    shape[i] = values().size(static_cast<std::int64_t>(i));
    order.push_back(dim);
  }
  if (order.size() != numbers.axes().size()) {
    throw ShapeError(
        numbers.title(),
        fmt::format("the grids have other axes; expected some of [{}], got [{}]",
                    fmt::join(names_of(axes_), ", "), fmt::join(names_of(numbers.axes()), ", ")));
  }
  return aligned.permute(order).reshape(shape);
}

Grid Grid::rescaled(const Grid& zero, const Grid& one, std::string unit) const {
  const at::Tensor low = aligned(zero), range = aligned(one) - low;
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  return Grid((values() - low) / range.masked_fill(range.eq(0), nan), axes_,
              {.title = title(), .unit = std::move(unit)});
}

Grid operator-(const Grid& left, const Grid& right) {
  const auto where = fmt::format("{} - {}", left.title(), right.title());
  if (left.unit() != right.unit()) {
    throw ShapeError(where, fmt::format("the grids have other units; expected '{}' on both sides, got '{}'; "
                                        "bring them to one scale (rescaled), or rename it (with_unit)",
                                        left.unit(), right.unit()));
  }
  std::vector<GridAxis> axes = left.axes();
  for (GridAxis& axis : axes) {
    const auto other = std::ranges::find(right.axes(), axis.name, &GridAxis::name);
    if (other != right.axes().end() && other->labels != axis.labels) axis.labels = place_labels(axis);
  }
  return Grid(left.values() - left.aligned(right), std::move(axes), {.title = where, .unit = left.unit()});
}

Grid operator-(const Grid& grid, double number) { return grid + -number; }

Grid operator+(const Grid& grid, double number) {
  return changed(grid, grid.axes(), {.title = grid.title(), .unit = grid.unit()},
                 [&](const at::Tensor& all) { return all + number; });
}

Grid operator*(const Grid& grid, double number) {
  return changed(grid, grid.axes(), {.title = grid.title(), .unit = grid.unit()},
                 [&](const at::Tensor& all) { return all * number; });
}

Grid operator*(double number, const Grid& grid) { return grid * number; }

}  // namespace hooked
