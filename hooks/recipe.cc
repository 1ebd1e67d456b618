#include "hooks/recipe.h"

#include <ATen/TensorIndexing.h>
#include <ATen/ops/arange.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <utility>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/site.h"

namespace hooked {
namespace {

bool is_position(Axis axis) { return axis == Axis::pos || axis == Axis::source || axis == Axis::query; }

// A view if the places are neighbours.
at::Tensor places_of_input(const at::Tensor& x, std::int64_t dim, const std::vector<std::int64_t>& places) {
  const auto apart = [](std::int64_t a, std::int64_t b) { return b != a + 1; };
  if (std::adjacent_find(places.begin(), places.end(), apart) == places.end())
    return x.narrow(dim, places.front(), static_cast<std::int64_t>(places.size()));
  return x.index_select(dim, to_device(places, x.device()));
}

}  // namespace

// Tensors of inference mode have no version counter.
std::uint32_t version_of(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

std::vector<Axis> axes_to_cut(Site site, std::size_t whole) {
  const AxisList& of_site = row(site).axes;
  std::vector<Axis> axes(of_site.begin(), of_site.end());
  std::fill(axes.end() - static_cast<std::ptrdiff_t>(whole), axes.end(), Axis::one);
  return axes;
}

Recipe::Recipe(const ActivationName& name, std::vector<std::int64_t> sizes, const at::TensorOptions& options,
               std::vector<Input> inputs, Make make)
    : name_(name), sizes_(std::move(sizes)), options_(options), make_(std::move(make)) {
  for (Input& input : inputs) {
    if (input.value.defined()) {
      assert(static_cast<std::size_t>(input.value.dim()) == input.axes.size());
      input.value = input.value.detach();
    }
    const std::uint32_t version = version_of(input.value);
    inputs_.push_back({std::move(input), version});
  }
}

std::vector<at::Tensor> Recipe::inputs() const {
  std::vector<at::Tensor> defined;
  for (const Kept& kept : inputs_) {
    if (kept.input.value.defined()) defined.push_back(kept.input.value);
  }
  return defined;
}

void Recipe::require_unchanged() const {
  for (const Kept& kept : inputs_) {
    if (version_of(kept.input.value) == kept.version) continue;
    throw HookError(
        name_.to_string(),
        fmt::format(
            "{} were written into after they were captured, and this activation is computed from them when "
            "it is first read; expected them unchanged; write into a copy: cache[...].clone()",
            kept.input.what));
  }
}

at::Tensor Recipe::make() const {
  require_unchanged();
  const at::AutoGradMode no_gradients(false);
  std::vector<at::Tensor> values;
  for (const Kept& kept : inputs_) values.push_back(kept.input.value);
  at::Tensor made = make_(values);
  assert(made.sizes() == at::IntArrayRef(sizes_) && made.scalar_type() == options_.dtype());
  return made;
}

bool Recipe::cuts(Axis axis) const {
  return axis != Axis::one && std::any_of(inputs_.begin(), inputs_.end(), [&](const Kept& kept) {
           return kept.input.value.defined() &&
                  std::find(kept.input.axes.begin(), kept.input.axes.end(), axis) != kept.input.axes.end();
         });
}

template <typename Take>
Recipe Recipe::cut(Axis axis, std::int64_t size, const Take& take) const {
  const std::int64_t of_value = *row(name_.site).axes.find(axis);
  const std::int64_t before = sizes_[static_cast<std::size_t>(of_value)];
  require_unchanged();  // what is copied below is not checked again
  Recipe some = *this;
  some.sizes_[static_cast<std::size_t>(of_value)] = size;
  for (Kept& kept : some.inputs_) {
    at::Tensor& x = kept.input.value;
    if (!x.defined()) continue;
    for (std::size_t d = 0; d < kept.input.axes.size(); ++d) {
      const auto dim = static_cast<std::int64_t>(d);
      const Axis of_input = kept.input.axes[d];
      const bool grouped = axis == Axis::head && of_input == Axis::kv_head;  // several heads share one
      if (of_input != axis && !grouped) continue;
      // One row that serves all, or one key/value head.
      if ((axis == Axis::batch && x.size(dim) != before) || (grouped && x.size(dim) == 1)) continue;
      x = take(x, dim, grouped ? before / x.size(dim) : 1);
    }
    kept.version = version_of(x);
  }
  return some;
}

Recipe Recipe::at_places(Axis axis, const std::vector<std::int64_t>& places) const {
  return cut(axis, static_cast<std::int64_t>(places.size()),
             [&](const at::Tensor& x, std::int64_t dim, std::int64_t group) {
               if (group == 1) return places_of_input(x, dim, places);
               std::vector<std::int64_t> shared;
               for (const std::int64_t place : places) shared.push_back(place / group);
               return places_of_input(x, dim, shared);
             });
}

Recipe Recipe::at_last(Axis axis, const at::Tensor& last) const {
  const std::int64_t rows = last.size(0);
  return cut(axis, 1, [&](const at::Tensor& x, std::int64_t dim, std::int64_t) {
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[0] = rows;  // batch is the first axis of whatever has positions
    const at::Tensor here = last.to(x.device());
    return x.expand(sizes).movedim(dim, 1).index({at::arange(rows, here.options()), here}).unsqueeze(dim);
  });
}

Recipe Recipe::at(Axis axis, const AxisIndex& index, const AxisContext& context) const {
  const std::int64_t size = sizes_[static_cast<std::size_t>(*row(name_.site).axes.find(axis))];
  if (!std::holds_alternative<AxisIndex::Last>(index.value))
    return at_places(axis, resolve_places(index, {context, axis, size}));
  if (!context.last_positions.defined()) return at_places(axis, {size - 1});
  return at_last(axis, context.last_positions);
}

at::Tensor Recipe::block(const AxisIndices& indices, const AxisContext& context) const {
  Recipe some = *this;
  AxisIndices rest;
  const auto cut_to = [&](bool last_ones) {
    for (const auto& [named, index] : indices.entries()) {
      const auto axis = axis_on(name_.site, named);
      const bool last = std::holds_alternative<AxisIndex::Last>(index.value);
      if (!axis || !cuts(*axis) || (last && !is_position(*axis))) {
        if (last_ones) rest.add(named, index);  // once
        continue;
      }
      if (last != last_ones) continue;
      some = some.at(*axis, index, context);
      if (last || std::holds_alternative<std::int64_t>(index.value)) rest.add(named, 0);
    }
  };
  cut_to(true);  // each row's own, while all rows are still there
  cut_to(false);
  const at::Tensor made = some.make();
  return rest.empty() ? made : take_block(made, rest, context);
}

Recipe Recipe::in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const {
  require_unchanged();
  Recipe changed = *this;
  for (Kept& kept : changed.inputs_) {
    if (!kept.input.value.defined()) continue;
    kept.input.value = form(kept.input.value);
    kept.version = version_of(kept.input.value);
  }
  return changed;
}

}  // namespace hooked
