#include "analysis/directions/vector_places.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "hooked/core/axis.h"
#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

/// The address of each vector of an activation: itself, or its heads.
std::vector<Address> vectors_of(const ActivationName& name, const ModelConfig& config,
                                std::string_view where) {
  const SiteRow& site = row(name.site);
  const bool starts =
      !site.integers && site.axes.size() >= 3 && site.axes[0] == Axis::batch && site.axes[1] == Axis::pos;
  if (starts && site.axes.size() == 3) return {name};
  const bool heads =
      starts && site.axes.size() == 4 && (site.axes[2] == Axis::head || site.axes[2] == Axis::kv_head);
  if (!heads) {
    throw HookError(where, fmt::format("{} has no vector at each position; expected an activation [row, pos, "
                                       "d] or [row, pos, head, d]",
                                       name.to_string()));
  }
  std::vector<Address> each;
  for (std::int64_t head = 0; head < size_of(site.axes[2], config, name.layer); ++head)
    each.push_back(Address(name).at(site.axes[2], head));
  return each;
}

}  // namespace

VectorPlaces::VectorPlaces(const ModelConfig& config, const Selection& of, std::vector<Position> positions,
                           std::int64_t rows, std::string_view where)
    : where_(where), config_(config), positions_(std::move(positions)), rows_(rows) {
  if (positions_.empty()) {
    throw ShapeError(where,
                     "no position is given; expected one or more, such as the last: each row "
                     "has a vector at each of them");
  }
  const PointIndex points(config_);
  for (const std::size_t point : of.resolve(points, Reach::everything(points))) {
    for (Address& vector : vectors_of(points.name(point), config_, where))
      points_.push_back(std::move(vector));
  }
  if (points_.empty())
    throw HookError(where, "nothing is selected; expected activations, such as resid_post");
  for (const Address& point : points_) {
    for (std::size_t position = 0; position < positions_.size(); ++position)
      all_.push_back({point, position});
  }
}

std::int64_t VectorPlaces::width(std::size_t place) const {
  const ActivationName name = all_[place].place.name();
  const AxisList& axes = row(name.site).axes;
  return size_of(axes[axes.size() - 1], config_, name.layer);
}

std::vector<GridAxis> VectorPlaces::axes() const {
  const auto same_kind = [&](const Address& point) {
    return point.indices().empty() && point.name().layer >= 0 &&
           point.name().site == points_.front().name().site &&
           point.name().stack == points_.front().name().stack;
  };
  const bool layers = std::ranges::all_of(points_, same_kind);
  GridAxis axis{.name = layers ? "layer" : "point", .labels = {}};
  for (const Address& point : points_) {
    axis.labels.push_back(layers ? std::to_string(point.name().layer) : point.to_string());
    axis.places.emplace_back(point);
  }
  GridAxis at{.name = "pos", .labels = {}};
  for (const Position& position : positions_) at.labels.push_back(position.label());
  return {std::move(axis), std::move(at)};
}

std::vector<std::int64_t> VectorPlaces::shape() const {
  return {std::ssize(points_), std::ssize(positions_)};
}

Selection VectorPlaces::activations(std::size_t begin, std::size_t end) const {
  Selection some;
  for (std::size_t i = begin; i < end; ++i) some = some | Selection(all_[i].place.name());
  return some;
}

at::Tensor VectorPlaces::read(const ActivationCache& cache, std::size_t place, std::int64_t first_row,
                              std::int64_t count) const {
  const auto& [address, position] = all_[place];
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first_row);
  const RowColumns columns = columns_of(cache, address, {positions_[position].of_rows(rows)});
  if (columns.rows() != count) {
    throw ShapeError(where_, fmt::format("the run has another number of rows; expected {}, got {}", count,
                                         columns.rows()));
  }
  const at::Tensor vectors = read_columns(cache, address, columns).squeeze(1).to(at::kCPU, at::kDouble);
  const at::Tensor finite = at::isfinite(vectors).all(1);
  if (!finite.all().item<bool>()) {
    const auto row = finite.logical_not().to(at::kLong).argmax().item<std::int64_t>() + first_row;
    throw ShapeError(where_,
                     fmt::format("{} of row {} at position {} has a number that is not finite; expected "
                                 "finite numbers; leave the row out, or find what made it",
                                 address.to_string(), row, positions_[position].label()));
  }
  return vectors;
}

}  // namespace hooked
