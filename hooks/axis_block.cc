#include "hooked/hooks/axis_block.h"

#include <ATen/TensorIndexing.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

std::int64_t checked(std::int64_t index, const AxisPlace& place) {
  const std::int64_t resolved = index < 0 ? index + place.size : index;
  if (resolved < 0 || resolved >= place.end()) {
    throw HookError(place.context.where,
                    fmt::format("index {} is out of range on axis '{}'; expected {} to {}", index,
                                axis_name(place.axis), -place.size, place.end() - 1));
  }
  return resolved;
}

std::pair<std::int64_t, std::int64_t> checked(const AxisIndex::Range& range, const AxisPlace& place) {
  const auto bound = [&](std::int64_t index) { return index < 0 ? index + place.size : index; };
  const std::int64_t begin = bound(range.begin.value_or(0));
  const std::int64_t end = bound(range.end.value_or(place.end()));
  if (begin < 0 || end > place.end() || begin >= end) {
    throw HookError(place.context.where,
                    fmt::format("range {} picks nothing or leaves axis '{}'; expected a part of 0:{}",
                                AxisIndex(range).to_string(), axis_name(place.axis), place.end()));
  }
  return {begin, end};
}

at::Tensor last_of_each_row(const at::Tensor& value, const AxisContext& context, std::int64_t size) {
  if (context.last_positions.defined()) return context.last_positions.to(value.device());
  return at::full({value.size(0)}, size - 1, at::TensorOptions(at::kLong).device(value.device()));
}

/// An index that picks several separate places, when all other indices yield views.
struct SinglePick {
  Axis axis;
  AxisIndex index;
  AxisIndices others;
  std::int64_t dimension;  ///< of that axis in what the other indices yield
};

// Nothing if several indices do so, or if `last` meets a choice of rows.
std::optional<SinglePick> single_pick(const AxisIndices& indices, Site site) {
  std::optional<SinglePick> pick;
  for (const auto& [named, index] : indices.entries()) {
    const auto* list = std::get_if<std::vector<std::int64_t>>(&index.value);
    const bool last = std::holds_alternative<AxisIndex::Last>(index.value);
    if (!last && (list == nullptr || list->size() == 1)) continue;
    if (pick || (last && indices.find(Axis::batch) != nullptr)) return std::nullopt;
    const Axis axis = axis_on(site, named).value();
    pick = SinglePick{axis, index, {}, *row(site).axes.find(axis)};
  }
  if (!pick) return std::nullopt;
  const std::int64_t before_drops = pick->dimension;
  for (const auto& [named, index] : indices.entries()) {
    const Axis axis = axis_on(site, named).value();
    if (axis == pick->axis) continue;
    pick->others.add(named, index);
    const bool drops = std::holds_alternative<std::int64_t>(index.value);
    if (drops && *row(site).axes.find(axis) < before_drops) --pick->dimension;
  }
  return pick;
}

}  // namespace

std::vector<std::int64_t> resolve_places(const AxisIndex& index, const AxisPlace& place) {
  std::vector<std::int64_t> places;
  if (const auto* one = std::get_if<std::int64_t>(&index.value)) {
    places.push_back(checked(*one, place));
  } else if (const auto* range = std::get_if<AxisIndex::Range>(&index.value)) {
    const auto [begin, end] = checked(*range, place);
    for (std::int64_t i = begin; i < end; ++i) places.push_back(i);
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&index.value)) {
    for (const std::int64_t i : *list) places.push_back(checked(i, place));
  }
  return places;
}

at::Tensor take_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context) {
  at::Tensor block = value;
  // From the last axis to the first, so that dropping one does not move those still to come.
  const AxisList& axes = row(context.site).axes;
  for (const auto& entry : indices.entries()) {
    if (!axis_on(context.site, entry.first)) {
      throw HookError(context.where, fmt::format("this activation has no axis '{}'; its shape is {}",
                                                 axis_name(entry.first), shape_text(value.sizes())));
    }
  }
  const auto index_of = [&](Axis axis) -> const AxisIndex* {
    for (const auto& [named, index] : indices.entries()) {
      if (axis_on(context.site, named) == axis) return &index;
    }
    return nullptr;
  };
  const auto places_there = [&](Axis axis) -> const at::Tensor* {
    for (const auto& [named, places] : context.places_there) {
      if (axis_on(context.site, named) == axis) return &places;
    }
    return nullptr;
  };
  for (std::size_t dim = axes.size(); dim-- > 0;) {
    const AxisIndex* index = index_of(axes[dim]);
    if (index == nullptr) continue;
    const AxisPlace place{context, axes[dim], value.size(static_cast<std::int64_t>(dim))};
    const auto d = static_cast<std::int64_t>(dim);
    const auto* one = std::get_if<std::int64_t>(&index->value);
    if (const at::Tensor* there = places_there(axes[dim])) {
      block = block.index_select(d, *there);
      if (one != nullptr) block = block.select(d, 0);
    } else if (one != nullptr) {
      block = block.select(d, checked(*one, place));
    } else if (const auto* range = std::get_if<AxisIndex::Range>(&index->value)) {
      const auto [begin, end] = checked(*range, place);
      block = block.slice(d, begin, end);
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&index->value)) {
      const std::vector<std::int64_t> resolved = resolve_places(*list, place);
      block = resolved.size() == 1 ? block.slice(d, resolved[0], resolved[0] + 1)
                                   : block.index_select(d, to_device(resolved, value.device()));
    } else {
      if (axes[dim] != Axis::pos && axes[dim] != Axis::source && axes[dim] != Axis::query) {
        throw HookError(context.where,
                        fmt::format("'last' is a place in a row's tokens; expected a number or range "
                                    "on axis '{}'",
                                    axis_name(axes[dim])));
      }
      // Batch is always the first axis and not dropped yet, so each row is paired with its own position.
      const auto last = last_of_each_row(value, context, place.size);
      const auto rows = at::arange(value.size(0), last.options());
      block = block.movedim(d, 1).index({rows, last});
    }
  }
  return block;
}

void write_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context,
                 const at::Tensor& block) {
  const at::Tensor target = take_block(value, indices, context);
  if (target.is_alias_of(value)) {
    target.copy_(block.expand(target.sizes()));
    return;
  }
  const at::Tensor from = block.expand(target.sizes());
  const auto apart =
      context.places_there.empty() ? single_pick(indices, context.site) : std::optional<SinglePick>();
  if (apart) {
    const at::Tensor view = take_block(value, apart->others, context);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&apart->index.value)) {
      const std::int64_t size = value.size(*row(context.site).axes.find(apart->axis));
      const std::vector<std::int64_t> places = resolve_places(*list, {context, apart->axis, size});
      view.index_copy_(apart->dimension, to_device(places, value.device()), from);
    } else {
      const at::Tensor last = last_of_each_row(value, context, view.size(apart->dimension));
      view.movedim(apart->dimension, 1).index_put_({at::arange(value.size(0), last.options()), last}, from);
    }
    return;
  }
  // Several lists, or places that the host need not know: picking from the numbers of all places gives the
  // block's destination.
  const at::Tensor numbers =
      at::arange(value.numel(), at::TensorOptions(at::kLong).device(value.device())).view(value.sizes());
  const at::Tensor places = take_block(numbers, indices, context);
  value.view({-1}).index_put_({places.reshape({-1})}, from.reshape({-1}));
}

at::Tensor with_block(const at::Tensor& value, const AxisIndices& indices, const AxisContext& context,
                      const at::Tensor& block) {
  if (indices.empty()) return block.expand(value.sizes()).clone(at::MemoryFormat::Contiguous);
  const at::Tensor changed = value.clone(at::MemoryFormat::Contiguous);
  write_block(changed, indices, context, block);
  return changed;
}

}  // namespace hooked
