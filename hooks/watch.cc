#include "hooks/watch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/axis_block.h"
#include "hooks/edited_block.h"
#include "hooks/hook_failure.h"
#include "hooks/layout_text.h"

namespace hooked {
namespace {

void require_same_layout(const std::string& where, const at::Tensor& got, const at::Tensor& expected) {
  if (got.defined() && got.sizes() == expected.sizes() && got.scalar_type() == expected.scalar_type() &&
      got.device() == expected.device()) {
    return;
  }
  throw HookError(
      where, fmt::format("a hook returned another kind of tensor; expected {}, got {}; return a tensor "
                         "like the one received, or nothing to only observe",
                         layout_text(expected), got.defined() ? layout_text(got) : "an undefined tensor"));
}

// Throws if an edit replaces all columns of a sequence and the run computes only those of `covered`.
void require_all_columns(const WatchPlan::PointEdit& edit, const ActivationName& name,
                         const std::vector<std::int64_t>& covered) {
  const auto axis = axis_on(name.site, Axis::pos);
  if (edit.kind != EditKind::replace || !axis || edit.indices.find(*axis) != nullptr) return;
  for (std::size_t i = 0; i < covered.size(); ++i) {
    if (covered[i] == static_cast<std::int64_t>(i)) continue;
    throw HookError(name.to_string(),
                    fmt::format("this replaces all columns from 0 on, and the run computes {} here; expected "
                                "a cache of these columns, or an address that names columns of both",
                                AxisIndex(covered).to_string()));
  }
}

}  // namespace

void RunColumns::set_mask(const at::Tensor& real) {
  mask = real;
  last = real.defined() ? tokens().last(real.size(0)) : at::Tensor();
}

Watch::Watch(std::shared_ptr<const WatchPlan> plan, RunExtent extent)
    : plan_(std::move(plan)),
      extent_(std::move(extent)),
      waiting_(plan_->plans().size()),
      cache_(plan_->points()),
      seen_(plan_->plans().size()),
      read_(plan_->dictionaries().size()),
      coded_(plan_->dictionaries().size()) {}

Watch::RegisteredHooks::~RegisteredHooks() {
  for (const auto& [tensor, place] : places_) tensor.remove_hook(place);
}

void Watch::RegisteredHooks::add(const at::Tensor& on, std::function<at::Tensor(const at::Tensor&)> hook) {
  places_.emplace_back(on, on.register_hook(std::move(hook)));
}

at::Tensor Watch::after_hook(const HookFunction& hook, const at::Tensor& value, std::size_t point) const {
  const auto version = value._version();
  const ActivationName& name = points().name(point);
  const RunColumns& columns = columns_of(name, axis_on(name.site, Axis::pos).value_or(Axis::pos));
  std::optional<at::Tensor> result;
  try {
    result = hook(value, name,
                  {.first_column = columns.first, .new_tokens = columns.after_prompt, .mask = columns.mask});
  } catch (...) {
    rethrow_from_hook(name);
  }
  const std::string where = name.to_string();
  if (value._version() != version) {
    throw HookError(
        where,
        "a hook wrote in place into the activation it was given; expected a new tensor; return the edited "
        "copy instead (x.clone(), x.index_fill(...), x * 0.5)");
  }
  if (!result) return value;
  require_same_layout(where, *result, value);
  return *std::move(result);
}

const RunColumns& Watch::columns_of(const ActivationName& name, Axis axis) const {
  return extent_.encoder && counts_source(name, axis) ? *extent_.encoder : extent_.columns;
}

std::optional<std::vector<std::int64_t>> Watch::positions_of(const ActivationName& name) const {
  if (!axis_on(name.site, Axis::pos)) return std::nullopt;
  if (extent_.logit_positions && row(name.site).asked_rows) return extent_.logit_positions;
  const RunColumns& columns = columns_of(name, Axis::pos);
  if (columns.first == 0 && !columns.limit) return std::nullopt;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(columns.end - columns.first));
  std::iota(positions.begin(), positions.end(), columns.first);
  return positions;
}

std::optional<Watch::Places> Watch::places_of(const AxisIndices& indices, const ActivationName& name) const {
  const auto covered = positions_of(name);
  const RunColumns& columns = columns_of(name, Axis::pos);
  const at::Tensor& rows_end = columns.last;
  if (!covered) return Places{indices, rows_end};
  const std::string where = name.to_string();
  const AxisContext context{name.site, where, {}};
  const auto refuse = [&] {
    throw HookError(
        where + indices.to_string(),
        fmt::format("a position is not among those that this run computes here; expected some of {}{}",
                    AxisIndex(*covered).to_string(),
                    extent_.logit_positions ? "; add it to logit_positions" : ""));
  };
  // Keeps the places that this run computes, as places in its value.
  const auto in_value = [&](const AxisIndex& index, Axis axis) {
    std::vector<std::int64_t> kept;
    for (const std::int64_t place : resolve_places(index, {context, axis, columns.end, columns.limit})) {
      if (axis == Axis::key) {
        if (place < columns.end) kept.push_back(place);
        continue;
      }
      const auto found = std::find(covered->begin(), covered->end(), place);
      if (found != covered->end()) {
        kept.push_back(found - covered->begin());
      } else if (!columns.limit) {
        refuse();
      }
    }
    return kept;
  };
  Places places{{}, rows_end};
  for (const auto& [axis, index] : indices.entries()) {
    const Axis on = axis_on(name.site, axis).value_or(axis);
    const bool last = std::holds_alternative<AxisIndex::Last>(index.value);
    // If an axis counts encoder tokens, all of them are there.
    if (on != Axis::pos && on != Axis::query && (on != Axis::key || last)) {
      places.indices.add(axis, index);
    } else if (last && rows_end.defined()) {
      const at::Tensor here = to_device(*covered, rows_end.device());
      const at::Tensor matches = rows_end.unsqueeze(1) == here;  // [batch, position]
      if (!matches.any(1).all().item<bool>()) refuse();
      places.last = matches.to(at::kLong).argmax(1);
      places.indices.add(axis, index);
    } else {
      const std::vector<std::int64_t> kept = in_value(last ? AxisIndex(columns.end - 1) : index, on);
      if (kept.empty()) return std::nullopt;
      const bool one = last || std::holds_alternative<std::int64_t>(index.value);
      places.indices.add(axis, one ? AxisIndex(kept.front()) : AxisIndex(kept));
    }
  }
  return places;
}

at::Tensor Watch::apply_edit(const WatchPlan::PointEdit& edit, const at::Tensor& value, std::size_t point,
                             bool in_place) const {
  const ActivationName& name = points().name(point);
  const std::string where = name.to_string();
  const std::optional<Places> places = places_of(indices_of(edit, name), name);
  if (!places) return value;
  if (const auto covered = positions_of(name)) require_all_columns(edit, name, *covered);
  const AxisContext context{name.site, where, places->last, places_there(edit)};
  const auto keys = keys_.find(&edit);
  const at::Tensor block = take_block(value, places->indices, context);

  std::variant<double, at::Tensor> operand = edit.value;
  // A single key has no axis, all keys together have one.
  if (auto* tensor = std::get_if<at::Tensor>(&operand);
      tensor != nullptr && keys != keys_.end() && keys->second.one && tensor->dim() > 0)
    *tensor = tensor->unsqueeze(-1);
  const auto edited = [&] {
    const at::Tensor changed = edited_block(edit.kind, operand, block, where + edit.indices.to_string());
    return keys == keys_.end() ? changed : at::where(keys->second.meant, changed, block);
  };
  if (!in_place || places->indices.empty()) return with_block(value, places->indices, context, edited());
  write_block(value, places->indices, context, edited());
  return value;
}

bool Watch::passes_tokens(std::size_t point) const {
  const SiteScope scope = points().name(point).scope();
  return extent_.ragged != nullptr && (scope == SiteScope::entry || scope == SiteScope::block);
}

at::Tensor Watch::replacement(std::size_t point, at::IntArrayRef sizes,
                              const at::TensorOptions& options) const {
  const WatchPlan::PointPlan* p = plan_->find(point);
  const at::Tensor* value = p == nullptr ? nullptr : p->replacement();
  if (value == nullptr || value->scalar_type() != options.dtype() || value->device() != options.device()) {
    return {};
  }
  if (!passes_tokens(point)) return value->sizes() == sizes ? *value : at::Tensor();
  const auto rows = extent_.ragged->sizes();
  const bool fits = value->dim() == static_cast<std::int64_t>(sizes.size()) &&
                    value->sizes().slice(0, 2) == at::IntArrayRef(rows) &&
                    value->sizes().slice(2) == sizes.slice(2);
  return fits ? extent_.ragged->tokens_of(*value) : at::Tensor();
}

void Watch::pass_point() {
  --waiting_;
  if (is_over()) throw LastPointPassed();
}

at::Tensor Watch::fire(std::size_t point, at::Tensor value, const AfterChange& after_change) {
  if (!passes_tokens(point)) return pass(point, std::move(value), after_change);
  const at::Tensor passed = pass(point, extent_.ragged->rows_of(value), after_change);
  return may_change(point) ? extent_.ragged->tokens_of(passed) : value;
}

at::Tensor Watch::pass(std::size_t point, at::Tensor value, const AfterChange& after_change) {
  const WatchPlan::PointPlan& p = *plan_->find(point);
  for (const HookFunction& hook : p.forward) value = after_hook(hook, value, point);
  bool own = false;  // a copy made by an edit, not shown to anyone: the next edit may write into it
  for (const WatchPlan::PointEdit& edit : p.edits) {
    at::Tensor edited = apply_edit(edit, value, point, own && !c10::GradMode::is_enabled());
    own |= !edited.is_same(value);
    value = std::move(edited);
  }
  if (after_change && p.may_change()) value = after_change(std::move(value));
  if (p.wants_gradient()) {
    // A value without history that an edit put here becomes a leaf, so that it has a gradient too. (Ids,
    // which a metric may read, have none.)
    if (!value.requires_grad() && value.is_floating_point()) value = value.detach().requires_grad_(true);
    // A tensor object of its own: one tensor may pass several points (resid_post, then the next resid_pre).
    value = value.view_as(value);
    for (const HookFunction& hook : p.backward) {
      backward_hooks_.add(value, [this, &hook, point](const at::Tensor& gradient) {
        return after_hook(hook, gradient, point);
      });
    }
    seen_[plan_->place_of(point)] = value;
  }
  if (p.capture) {
    if (auto entry = kept(point, plan_->kept().attached ? value : value.detach())) keep(*std::move(entry));
  }
  pass_point();
  for (const std::size_t reader : p.read_by) read_[reader] = value;
  return p.dictionary ? through_dictionary(*p.dictionary, value) : value;
}

ActivationCache Watch::live() const {
  ActivationCache read = empty_cache();
  for (const std::size_t point : plan_->watched_points()) {
    const at::Tensor& seen = seen_[plan_->place_of(point)];
    if (!plan_->find(point)->reading || !seen.defined()) continue;
    const ActivationName& name = points().name(point);
    read.insert(
        {.name = name, .held = seen, .positions = positions_of(name).value_or(std::vector<std::int64_t>())});
  }
  return read;
}

ActivationCache Watch::take_gradients(const at::Tensor& metric) {
  std::vector<const WatchPlan::PointPlan*> asked;
  torch::autograd::variable_list inputs;
  for (const std::size_t point : plan_->watched_points()) {
    const at::Tensor& seen = seen_[plan_->place_of(point)];
    if (!seen.defined() || !seen.requires_grad()) continue;
    asked.push_back(plan_->find(point));
    inputs.push_back(seen);
  }
  ActivationCache gradients = empty_cache();
  if (inputs.empty()) return gradients;
  torch::autograd::variable_list results(inputs.size());
  if (metric.requires_grad()) {
    results = torch::autograd::grad({metric}, inputs, {}, std::nullopt, false, /*allow_unused=*/true);
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!asked[i]->gradient) continue;  // only hooked
    const at::Tensor gradient = results[i].defined() ? results[i] : at::zeros_like(inputs[i]);
    if (auto entry = kept(asked[i]->point, gradient)) gradients.insert(*std::move(entry));
  }
  send_to_host(gradients);
  return gradients;
}

}  // namespace hooked
