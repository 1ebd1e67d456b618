#include "hooks/watch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hooked/core/error.h"
#include "hooks/layout_text.h"

namespace hooked {
namespace {

void require_ids(const Edit& edit, const ActivationName& name) {
  if (edit.kind != EditKind::set && edit.kind != EditKind::replace) {
    throw HookError(name.to_string(), "ids can only be set or replaced; expected an edit of that kind");
  }
  if (const auto* number = std::get_if<double>(&edit.value);
      number != nullptr && *number != std::floor(*number)) {
    throw HookError(name.to_string(),
                    fmt::format("an id has no fraction; expected an integer, got {}", *number));
  }
}

}  // namespace

WatchPlan::WatchPlan(const PointIndex& points, Reach reach, Kept kept)
    : points_(points), reach_(reach), kept_(std::move(kept)), place_of_(points.size(), kUnwatched) {}

WatchPlan::PointPlan& WatchPlan::plan(std::size_t point) {
  if (place_of_[point] == kUnwatched) {
    place_of_[point] = static_cast<std::uint32_t>(plans_.size());
    plans_.push_back({.point = point});
  }
  return plans_[place_of_[point]];
}

void WatchPlan::add_hook(const Hook& hook) {
  for (const std::size_t point : hook.where.resolve(points_, reach_)) {
    // Ids are numbers without gradients.
    if (hook.direction == HookDirection::backward && row(points_.name(point).site).integers) continue;
    PointPlan& p = plan(point);
    (hook.direction == HookDirection::forward ? p.forward : p.backward).push_back(hook.function);
  }
}

void WatchPlan::add_edit(const Edit& edit) {
  for (const std::size_t point : edit.target.where.resolve(points_, reach_)) {
    const ActivationName& name = points_.name(point);
    AxisIndices indices;
    for (const auto& [axis, index] : edit.target.indices.entries()) {
      // Address::at says which axes there are when this one is not among them.
      indices.add(Address(name).at(axis, index).indices().entries().front().first, index);
    }
    if (row(name.site).integers) require_ids(edit, name);
    plan(point).edits.push_back({edit.kind, std::move(indices), edit.value});
  }
}

void WatchPlan::add_capture(const Selection& selection) {
  for (const std::size_t point : selection.resolve(points_, reach_)) plan(point).capture = true;
}

void WatchPlan::add_gradients(const Selection& selection) {
  for (const std::size_t point : selection.resolve(points_, reach_)) {
    // Ids are numbers without gradients.
    if (!row(points_.name(point).site).integers) plan(point).gradient = true;
  }
}

void WatchPlan::add_readings(const Selection& selection) {
  for (const std::size_t point : selection.resolve(points_, reach_)) plan(point).reading = true;
}

std::vector<std::size_t> WatchPlan::watched_points() const {
  std::vector<std::size_t> watched;
  for (const PointPlan& plan : plans_) watched.push_back(plan.point);
  std::sort(watched.begin(), watched.end());
  return watched;
}

bool WatchPlan::captures() const {
  return std::any_of(plans_.begin(), plans_.end(), [](const PointPlan& plan) { return plan.capture; });
}

const at::Tensor* WatchPlan::PointPlan::replacement() const {
  if (!forward.empty() || edits.empty() || !edits.front().indices.empty()) return nullptr;
  const bool puts = edits.front().kind == EditKind::set || edits.front().kind == EditKind::replace;
  return puts ? std::get_if<at::Tensor>(&edits.front().value) : nullptr;
}

bool WatchPlan::watches_between(std::size_t first, std::size_t end) const {
  const auto begin = place_of_.begin();
  return std::any_of(begin + static_cast<std::ptrdiff_t>(first) + 1, begin + static_cast<std::ptrdiff_t>(end),
                     [](std::uint32_t place) { return place != kUnwatched; });
}

bool WatchPlan::watches_all_columns_behind(std::size_t point) const {
  return std::any_of(plans_.begin(), plans_.end(), [&](const PointPlan& plan) {
    return plan.point > point && !row(points_.name(plan.point).site).asked_rows;
  });
}

bool WatchPlan::watches_exit() const {
  return std::any_of(plans_.begin(), plans_.end(), [&](const PointPlan& plan) {
    return row(points_.name(plan.point).site).scope == SiteScope::exit;
  });
}

std::optional<std::string> WatchPlan::recording_key() const {
  std::string key = kept_.positions ? fmt::format("keep {} ", kept_.positions->to_string()) : std::string();
  if (kept_.device) key += fmt::format("on {} ", kept_.device->str());
  for (const std::size_t point : watched_points()) {
    const PointPlan& plan = *find(point);
    if (!plan.forward.empty() || !plan.backward.empty()) return std::nullopt;
    key += fmt::format("{}{}{};", point, plan.capture ? "c" : "", plan.wants_gradient() ? "g" : "");
    for (const PointEdit& edit : plan.edits) {
      const auto* value = std::get_if<at::Tensor>(&edit.value);
      key += fmt::format(
          "{}{}{};", static_cast<int>(edit.kind), edit.indices.to_string(),
          value == nullptr ? fmt::format("{}", std::get<double>(edit.value)) : layout_text(*value));
    }
  }
  return key;
}

}  // namespace hooked
