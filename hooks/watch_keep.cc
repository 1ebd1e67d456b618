// What a watch keeps of the values that pass its points.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooks/host_transport.h"
#include "hooks/watch.h"

namespace hooked {
namespace {

// Where a tensor is in memory, and how many bytes: tensors that show the same memory compare equal here.
std::pair<const void*, std::size_t> extent_of(const at::Tensor& x) {
  return {x.const_data_ptr(), x.nbytes()};
}

at::Tensor without_ballast(const at::Tensor& x) {
  return x.storage().nbytes() > 2 * x.nbytes() ? x.clone(at::MemoryFormat::Contiguous) : x;
}

// `value`, which holds only the columns `held`, with zeros in all other `columns` of an axis.
at::Tensor with_zeros(const at::Tensor& value, std::int64_t dim, std::int64_t columns,
                      const std::vector<std::int64_t>& held) {
  std::vector<std::int64_t> sizes = value.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = columns;
  const at::Tensor whole = at::zeros(sizes, value.options());
  for (std::size_t i = 0; i < held.size(); ++i)
    whole.select(dim, held[i]).copy_(value.select(dim, static_cast<std::int64_t>(i)));
  return whole;
}

// So that one position keeps its axis.
AxisIndex as_list(const AxisIndex& index) {
  const auto* one = std::get_if<std::int64_t>(&index.value);
  return one == nullptr ? index : AxisIndex(std::vector<std::int64_t>{*one});
}

}  // namespace

std::optional<ActivationCache::Entry> Watch::kept(std::size_t point, LateTensor value) const {
  const ActivationName& name = points().name(point);
  ActivationCache::Entry entry{name, std::move(value), {}};
  const auto axis = axis_on(name.site, Axis::pos);
  if (plan_->kept().unread_as_zeros && axis) entry.held = with_unread(name, *axis, entry.value());
  if (auto covered = positions_of(name)) entry.positions = *std::move(covered);
  if (plan_->kept().positions && axis) {
    const bool last = std::holds_alternative<AxisIndex::Last>(plan_->kept().positions->value);
    auto part = last ? at_last(std::move(entry), *axis) : at_positions(std::move(entry), *axis);
    if (!part) return std::nullopt;
    entry = *std::move(part);
  }
  if (plan_->kept().device && !plan_->kept().transport && !extent_.keeps_here) {
    entry.held = entry.value().to(*plan_->kept().device);
  }
  return entry;
}

std::optional<ActivationCache::Entry> Watch::at_last(ActivationCache::Entry entry, Axis axis) const {
  AxisIndices indices;
  indices.add(axis, *plan_->kept().positions);
  const Places places = places_of(indices, entry.name).value();
  const AxisIndex& place = places.indices.entries().front().second;
  const RunColumns& columns = columns_of(entry.name, axis);
  const std::int64_t rows = entry.held.sizes().front();
  const std::string where = entry.name.to_string();
  entry.held = entry.held.at(entry.name, axis, as_list(place), {entry.name.site, where, places.last});
  entry.positions.clear();  // each row has its own
  entry.row_positions =
      columns.last.defined() ? columns.last.unsqueeze(1) : at::full({rows, 1}, columns.end - 1, at::kLong);
  return entry;
}

std::optional<ActivationCache::Entry> Watch::at_positions(ActivationCache::Entry entry, Axis axis) const {
  const std::string where = entry.name.to_string();
  const AxisContext context{entry.name.site, where, {}};
  const RunColumns& columns = columns_of(entry.name, axis);
  // A list, so that one position keeps its axis and shapes do not depend on how many were asked for.
  std::vector<std::int64_t> held, places;
  for (const std::int64_t position :
       resolve_places(*plan_->kept().positions, {context, axis, columns.end, columns.limit})) {
    const auto found = std::find(entry.positions.begin(), entry.positions.end(), position);
    if (!entry.positions.empty() && found == entry.positions.end()) {
      if (columns.limit) continue;  // another step computes it
      throw HookError(where,
                      fmt::format("position {} is to be kept and is not among those that this run computes "
                                  "here; expected some of {}; {}",
                                  position, AxisIndex(entry.positions).to_string(),
                                  position < columns.first
                                      ? "the cache of the run that made the prefix has it"
                                      : "ask for it in logit_positions, or do not keep this activation"));
    }
    held.push_back(position);
    places.push_back(entry.positions.empty() ? position : found - entry.positions.begin());
  }
  if (held.empty()) return std::nullopt;
  entry.positions = std::move(held);
  entry.held = entry.held.at(entry.name, axis, places, context);
  return entry;
}

at::Tensor Watch::with_unread(const ActivationName& name, Axis axis, const at::Tensor& value) const {
  if (row(name.site).asked_rows || !extent_.logit_positions) return value;
  const RunColumns& own = columns_of(name, axis);
  const std::int64_t columns = own.end - own.first;
  const auto dim = static_cast<std::int64_t>(*row(name.site).axes.find(axis));
  if (value.size(dim) == columns) return value;
  std::vector<std::int64_t> held = *extent_.logit_positions;
  for (std::int64_t& position : held) position -= own.first;
  return with_zeros(value, dim, columns, held);
}

void Watch::keep(ActivationCache::Entry entry) {
  // Otherwise the whole value would live as long as the run.
  if (plan_->kept().positions) entry.held = entry.held.in_form(without_ballast);
  for (const at::Tensor& held : entry.held.held()) held_.insert(extent_of(held));
  to_send_ += entry.held.nbytes();
  cache_.insert(std::move(entry));
  if (plan_->kept().transport && !extent_.keeps_here && to_send_ >= plan_->kept().transport->block_bytes) {
    send_to_host(cache_);
    to_send_ = 0;
  }
}

void Watch::send_to_host(ActivationCache& cache) const {
  if (plan_->kept().transport && !extent_.keeps_here) hooked::send_to_host(cache, *plan_->kept().transport);
}

std::size_t Watch::added_bytes(const ActivationCache::Entry& entry) const {
  std::size_t bytes = 0;
  for (const at::Tensor& held : entry.held.held()) {
    if (!held_.contains(extent_of(held))) bytes += std::min(held.nbytes(), held.storage().nbytes());
  }
  return bytes;
}

bool Watch::may_keep_late(std::size_t point) const {
  const WatchPlan::PointPlan* plan = plan_->find(point);
  return plan != nullptr && plan->only_kept() && !plan_->kept().device && !extent_.columns.limit &&
         !passes_tokens(point) && !c10::GradMode::is_enabled();
}

bool Watch::keep_late(std::size_t point, Recipe recipe, ValueIs value) {
  auto entry = kept(point, LateTensor(std::move(recipe)));
  if (entry) {
    // A cache never holds more than the values themselves would take.
    const bool at_hand = value == ValueIs::at_hand;
    if (added_bytes(*entry) > (at_hand ? 0 : entry->held.nbytes())) {
      if (at_hand) return false;
      entry->held = entry->value();  // few numbers, computed apart, so that the run's own path stays the same
    }
    keep(*std::move(entry));
  }
  pass_point();
  return true;
}

ActivationCache Watch::empty_cache() const {
  ActivationCache empty(points());
  empty.set_tokens(extent_.columns.tokens());
  if (extent_.encoder) empty.set_tokens(extent_.encoder->tokens(), Stack::encoder);
  return empty;
}

ActivationCache Watch::take_cache() {
  send_to_host(cache_);
  // Bytes of each storage that the kept views show together: q, k and v together fill a fused product, while
  // q alone would pin the other two thirds.
  std::map<const void*, std::size_t> shown;
  std::set<std::pair<const void*, std::size_t>> counted;
  for (const auto& entry : cache_) {
    for (const at::Tensor& held : entry.held.held()) {
      if (counted.insert(extent_of(held)).second) shown[held.storage().data()] += held.nbytes();
    }
  }
  ActivationCache compacted = empty_cache();
  for (const auto& entry : cache_) {
    ActivationCache::Entry copy = entry;
    const std::vector<at::Tensor> held = entry.held.held();
    const auto pins = [&](const at::Tensor& t) {
      return t.storage().nbytes() > 2 * shown[t.storage().data()];
    };
    if (std::any_of(held.begin(), held.end(), pins)) {
      copy.held = entry.held.in_form(
          [&](const at::Tensor& t) { return pins(t) ? t.clone(at::MemoryFormat::Contiguous) : t; });
    }
    compacted.insert(std::move(copy));
  }
  cache_ = ActivationCache(points());
  held_.clear();
  return compacted;
}

}  // namespace hooked
