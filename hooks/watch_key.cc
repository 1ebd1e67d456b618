// What a recording of a run depends on, and what it reads anew at every replay.
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "hooked/hooks/axis_block.h"
#include "hooks/layout_text.h"
#include "hooks/watch.h"

namespace hooked {
namespace {

bool is_last(const AxisIndex& index) { return std::holds_alternative<AxisIndex::Last>(index.value); }

// How many places the device may read instead of the host.
std::int64_t places_in(const AxisIndex& index) {
  if (std::holds_alternative<std::int64_t>(index.value)) return 1;
  const auto* list = std::get_if<std::vector<std::int64_t>>(&index.value);
  return list == nullptr ? 0 : static_cast<std::int64_t>(list->size());
}

// Each row's last token is found by the run's mask, unlike the places of other axes.
bool moves(const WatchPlan::PointEdit& edit) {
  const auto& entries = edit.indices.entries();
  return std::none_of(entries.begin(), entries.end(),
                      [](const auto& entry) { return is_last(entry.second); });
}

// The index on the key axis; null if all keys are meant.
const AxisIndex* key_index(const AxisIndices& indices, Site site) {
  for (const auto& [axis, index] : indices.entries()) {
    if (axis_on(site, axis) == Axis::key) return &index;
  }
  return nullptr;
}

bool drops_axis(const AxisIndex* index) {
  return index != nullptr && std::holds_alternative<std::int64_t>(index->value);
}

}  // namespace

std::optional<RecordingKey> Watch::recording_key(const ModelConfig& config, std::int64_t batch) const {
  RecordingKey key;
  if (const auto& positions = plan_->kept().positions) {
    key.text = fmt::format("keep {} ", positions->to_string());
    const RunColumns& columns = extent_.columns;
    if (columns.limit) {
      // A step of a generation keeps its columns or does not.
      const AxisContext context{Site::resid_pre, "positions", {}};
      const std::vector<std::int64_t> wanted =
          resolve_places(*positions, {context, Axis::pos, columns.end, columns.limit});
      for (std::int64_t c = columns.first; c < columns.end; ++c) {
        key.text += std::find(wanted.begin(), wanted.end(), c) != wanted.end() ? 'k' : '-';
      }
    }
  }
  if (plan_->kept().device) key.text += fmt::format("on {} ", plan_->kept().device->str());
  for (const std::size_t point : plan_->watched_points()) {
    const WatchPlan::PointPlan& plan = *plan_->find(point);
    if (!plan.forward.empty() || !plan.backward.empty() || plan.dictionary) return std::nullopt;
    key.text += fmt::format("{}{}{};", point, plan.capture ? "c" : "", plan.gradient ? "g" : "");
    for (const WatchPlan::PointEdit& edit : plan.edits) {
      const auto* value = std::get_if<at::Tensor>(&edit.value);
      key.text += fmt::format(
          "{}{}", static_cast<int>(edit.kind),
          value == nullptr ? fmt::format("{}", std::get<double>(edit.value)) : layout_text(*value));
      add_places(edit, points().name(point), config, batch, key);
      key.text += ';';
    }
  }
  return key;
}

void Watch::add_places(const WatchPlan::PointEdit& edit, const ActivationName& name,
                       const ModelConfig& config, std::int64_t batch, RecordingKey& key) const {
  if (!moves(edit)) {
    key.text += edit.indices.to_string();
    return;
  }
  const AxisIndices indices = indices_of(edit, name);
  if (shows_room(name)) key.text += drops_axis(key_index(edit.indices, name.site)) ? "[one key" : "[keys";
  const std::optional<Places> places = places_of(indices, name);
  if (!places) {
    key.text += "elsewhere";  // another step computes its columns
    return;
  }
  const std::string where = name.to_string();
  const AxisContext context{name.site, where, {}};
  const auto covered = positions_of(name);
  const auto places_on = [&](Axis axis) {
    if (axis == Axis::batch) return batch;
    if (const std::int64_t fixed = size_of(axis, config, name.layer); fixed >= 0) return fixed;
    const bool of_queries = axis == Axis::pos || axis == Axis::query;
    return of_queries && covered ? static_cast<std::int64_t>(covered->size()) : columns_of(name, axis).end;
  };
  for (std::size_t i = 0; i < indices.entries().size(); ++i) {
    const auto& [named, index] = places->indices.entries()[i];
    const Axis axis = axis_on(name.site, named).value();
    const std::int64_t count = places_in(indices.entries()[i].second);  // a range may be a list here
    key.text += fmt::format("[{}{}", axis_name(axis), count == 0 ? index.to_string() : "");
    if (count == 0) continue;
    const bool one = std::holds_alternative<std::int64_t>(index.value);
    key.text += one ? "." : fmt::format("*{}", count);
    const std::vector<std::int64_t> numbers = resolve_places(index, {context, axis, places_on(axis)});
    key.places.insert(key.places.end(), numbers.begin(), numbers.end());
  }
}

void Watch::put_places(const at::Tensor& places) {
  places_ = places;
  std::int64_t next = 0;
  for (const std::size_t point : plan_->watched_points()) {
    for (const WatchPlan::PointEdit& edit : plan_->find(point)->edits) {
      if (!moves(edit)) continue;
      first_place_[&edit] = next;
      for (const auto& entry : edit.indices.entries()) next += places_in(entry.second);
    }
  }
}

std::vector<std::pair<Axis, at::Tensor>> Watch::places_there(const WatchPlan::PointEdit& edit) const {
  std::vector<std::pair<Axis, at::Tensor>> there;
  const auto first = first_place_.find(&edit);
  if (first == first_place_.end()) return there;
  std::int64_t next = first->second;
  for (const auto& [axis, index] : edit.indices.entries()) {
    const std::int64_t count = places_in(index);
    if (count > 0) there.emplace_back(axis, places_.narrow(0, next, count));
    next += count;
  }
  return there;
}

bool Watch::shows_room(const ActivationName& name) const {
  return extent_.room > 0 && name.stack == points().stacks().main() && row(name.site).axes.find(Axis::key);
}

AxisIndices Watch::indices_of(const WatchPlan::PointEdit& edit, const ActivationName& name) const {
  if (!shows_room(name)) return edit.indices;
  AxisIndices others;
  for (const auto& [axis, index] : edit.indices.entries()) {
    if (axis_on(name.site, axis) != Axis::key) others.add(axis, index);
  }
  return others;
}

bool Watch::fits_all_keys(const WatchPlan::PointEdit& edit, Site site) {
  const bool by_number =
      edit.kind == EditKind::add || edit.kind == EditKind::scale || edit.kind == EditKind::set;
  if (!by_number || !moves(edit)) return false;
  const auto* value = std::get_if<at::Tensor>(&edit.value);
  return value == nullptr || value->dim() == 0 || value->size(-1) == 1 ||
         drops_axis(key_index(edit.indices, site));
}

at::Tensor Watch::keys_of_edits() const {
  std::vector<at::Tensor> all;
  for (const std::size_t point : plan_->watched_points()) {
    const ActivationName& name = points().name(point);
    if (!shows_room(name)) continue;
    const std::string where = name.to_string();
    const AxisContext context{name.site, where, {}};
    const RunColumns& columns = extent_.columns;
    for (const WatchPlan::PointEdit& edit : plan_->find(point)->edits) {
      at::Tensor keys = at::zeros({extent_.room}, at::kBool);
      if (const AxisIndex* index = key_index(edit.indices, name.site)) {
        for (const std::int64_t key :
             resolve_places(*index, {context, Axis::key, columns.end, columns.limit})) {
          if (key < columns.end) keys[key] = true;
        }
      } else {
        keys.narrow(0, 0, columns.end).fill_(true);
      }
      all.push_back(std::move(keys));
    }
  }
  return all.empty() ? at::Tensor() : at::stack(all);
}

void Watch::put_keys(const at::Tensor& keys) {
  std::int64_t next = 0;
  for (const std::size_t point : plan_->watched_points()) {
    const ActivationName& name = points().name(point);
    if (!shows_room(name)) continue;
    for (const WatchPlan::PointEdit& edit : plan_->find(point)->edits) {
      keys_[&edit] = {keys.select(0, next++), drops_axis(key_index(edit.indices, name.site))};
    }
  }
}

}  // namespace hooked
