#include "hooks/watch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/to_device.h"
#include "hooked/core/error.h"

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

void require_vectors(const AxisIndices& indices, const ActivationName& name) {
  const AxisList& axes = row(name.site).axes;
  const Axis last = axes[axes.size() - 1];
  const AxisIndex* index = indices.find(last);
  if (index == nullptr) return;
  if (!std::holds_alternative<std::int64_t>(index->value) &&
      !std::holds_alternative<AxisIndex::Last>(index->value))
    return;
  throw HookError(name.to_string() + indices.to_string(),
                  fmt::format("project_out works along the last axis, and the address has one place of it; "
                              "expected all of [{}], or a range or list of places",
                              axis_name(last)));
}

// An edit's value on the device that needs it, if it is on another of the model's devices; values on other
// devices are reported when the point fires.
std::variant<double, at::Tensor> brought(const std::variant<double, at::Tensor>& value,
                                         const ActivationName& name, const Placement& placement) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  if (tensor == nullptr || !placement.spread() || tensor->device().type() != placement.entry().type())
    return value;
  return to_device(*tensor, device_of(name, placement));
}

}  // namespace

c10::Device device_of(const ActivationName& name, const Placement& placement) {
  switch (name.scope()) {
    case SiteScope::block:
      return placement.of({name.stack, name.layer});
    case SiteScope::encoder_exit:
      return placement.of({Stack::encoder, placement.last_encoder_layer()});
    case SiteScope::exit:
      return placement.exit();
    case SiteScope::entry:
    case SiteScope::dictionary:  // a name's scope is that of the dictionary's place
      break;
  }
  return placement.entry();
}

std::vector<std::size_t> edited_points(const EditTarget& target, const PointIndex& points,
                                       const Reach& reach) {
  std::vector<std::size_t> edited = target.where.resolve(points, reach);
  if (!edited.empty()) return edited;
  throw HookError("edits", target.where.resolve(points, Reach::everything(points)).empty()
                               ? "the selection of an edit matches no activation of this model, so that it "
                                 "would change nothing; expected at least one"
                               : "this run reaches none of the activations that an edit selects; expected at "
                                 "least one; change start_at_layer, stop_at_layer or output");
}

WatchPlan::WatchPlan(const PointIndex& points, Reach reach, Kept kept, const Placement& placement)
    : points_(points),
      reach_(reach),
      kept_(std::move(kept)),
      placement_(placement),
      place_of_(points.size(), kUnwatched) {}

WatchPlan::PointPlan& WatchPlan::plan(std::size_t point) {
  if (place_of_[point] == kUnwatched) {
    place_of_[point] = static_cast<std::uint32_t>(plans_.size());
    plans_.push_back({.point = point});
  }
  return plans_[place_of_[point]];
}

void WatchPlan::add_hook(const Hook& hook) {
  for (const std::size_t point : hook.where.resolve(points_, reach_)) {
    // Ids have no gradients.
    if (hook.direction == HookDirection::backward && row(points_.name(point).site).integers) continue;
    PointPlan& p = plan(point);
    (hook.direction == HookDirection::forward ? p.forward : p.backward).push_back(hook.function);
  }
}

void WatchPlan::add_edit(const Edit& edit) {
  for (const std::size_t point : edited_points(edit.target, points_, reach_)) {
    const ActivationName& name = points_.name(point);
    AxisIndices indices;
    for (const auto& [axis, index] : edit.target.indices.entries()) {
      // Address::at reports which axes there are if this one is not among them.
      indices.add(Address(name).at(axis, index).indices().entries().front().first, index);
    }
    if (row(name.site).integers) require_ids(edit, name);
    if (edit.kind == EditKind::project_out) require_vectors(indices, name);
    plan(point).edits.push_back({edit.kind, std::move(indices), brought(edit.value, name, placement_)});
  }
}

void WatchPlan::add_capture(const Selection& selection) {
  for (const std::size_t point : selection.resolve(points_, reach_)) plan(point).capture = true;
}

void WatchPlan::add_gradients(const Selection& selection) {
  for (const std::size_t point : selection.resolve(points_, reach_)) {
    // Ids have no gradients.
    if (!row(points_.name(point).site).integers) plan(point).gradient = true;
  }
}

void WatchPlan::add_readings(const Selection& selection) {
  for (const std::size_t point : selection.resolve(points_, reach_)) plan(point).reading = true;
}

void WatchPlan::add_dictionaries(const MountedDictionaries& dictionaries) {
  dictionaries_ = dictionaries;
  for (std::size_t number = 0; number < dictionaries.size(); ++number) {
    const MountedDictionary& mounted = dictionaries[number];
    if (!reach_.contains(mounted.writes)) continue;
    for (const std::size_t source : mounted.sources) {
      const ActivationName& read = dictionaries[source].reads;
      if (reach_.contains(read)) continue;
      throw HookError(
          mounted.writes.to_string(),
          fmt::format("the dictionary there reads {}, which this run does not compute; expected a "
                      "run that starts before it, or a model without the dictionary",
                      read.to_string()));
    }
    plan(points_.require(mounted.writes)).dictionary = number;
    if (mounted.reads != mounted.writes) plan(points_.require(mounted.reads)).read_by.push_back(number);
  }
}

bool WatchPlan::lends_features(std::size_t dictionary) const {
  return std::ranges::any_of(dictionaries_, [&](const MountedDictionary& other) {
    return &other != &dictionaries_[dictionary] && std::ranges::count(other.sources, dictionary) > 0;
  });
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
    return plan.point > point && !row(points_.name(plan.point).site).asked_rows && !may_skip_unread(plan);
  });
}

bool WatchPlan::may_skip_unread(const PointPlan& plan) const {
  const SiteRow& site = row(points_.name(plan.point).site);
  // Zeros would be wrong where unseen places are -inf; and rows of one expert are counted by its tokens.
  return kept_.unread_as_zeros && !plan.may_change() && plan.backward.empty() && !plan.reading &&
         site.unseen == 0 && axis_on(site.site, Axis::pos).has_value();
}

bool WatchPlan::watches_exit() const {
  return std::any_of(plans_.begin(), plans_.end(), [&](const PointPlan& plan) {
    return points_.name(plan.point).scope() == SiteScope::exit;
  });
}

}  // namespace hooked
