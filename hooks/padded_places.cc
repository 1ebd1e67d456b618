#include "hooks/padded_places.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

// The places of an index that count from the end.
std::vector<std::int64_t> from_the_end(const AxisIndex& index) {
  std::vector<std::int64_t> places;
  if (const auto* one = std::get_if<std::int64_t>(&index.value)) {
    places = {*one};
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&index.value)) {
    places = *list;
  } else if (const auto* range = std::get_if<AxisIndex::Range>(&index.value)) {
    if (range->begin) places.push_back(*range->begin);
    if (range->end) {
      places.push_back(*range->end < 0 ? *range->end - 1 : 0);  // the last one in it
    } else if (range->begin.value_or(0) < 0) {
      places.push_back(-1);
    }
  }
  std::erase_if(places, [](std::int64_t place) { return place >= 0; });
  return places;
}

// Which rows an address is about; nothing: all.
std::optional<std::vector<std::int64_t>> rows_of(const AxisIndices& indices, std::int64_t batch) {
  const AxisIndex* rows = indices.find(Axis::batch);
  if (rows == nullptr || std::holds_alternative<AxisIndex::Last>(rows->value)) return std::nullopt;
  const AxisContext context{Site::tokens, "batch", {}};
  return resolve_places(*rows, {context, Axis::batch, batch});
}

void require_real(const AxisIndex& index, const TokenColumns& columns,
                  const std::optional<std::vector<std::int64_t>>& rows, std::string_view where) {
  for (const std::int64_t place : from_the_end(index)) {
    const std::int64_t column = place + columns.end;
    const at::Tensor there = columns.rows_with_token(column);
    if (!there.defined()) continue;
    const at::Tensor real = there.cpu();
    for (std::int64_t row = 0; row < real.size(0); ++row) {
      if (real[row].item<bool>() || (rows && std::find(rows->begin(), rows->end(), row) == rows->end()))
        continue;
      const std::int64_t last = columns.last(real.size(0))[row].item<std::int64_t>();
      throw HookError(where, fmt::format("position {} is padding in row {}, whose last token is at {}; "
                                         "expected a token in every row; use `last`, give positions from 0 "
                                         "on, or {}",
                                         place, row, last,
                                         column > last ? "pad on the left" : "name the rows that have one"));
    }
  }
}

bool may_have_padding(const RunColumns& columns) {
  return columns.mask.defined() || columns.prefix_mask.defined();
}

// The places on a key axis that an edit applies to in a step that computes one column; null if it applies to
// none there.
const AxisIndex* keys_in_step(const WatchPlan::PointEdit& edit, const ActivationName& name,
                              const RunColumns& step) {
  const AxisIndex* keys = nullptr;
  for (const auto& [named, index] : edit.indices.entries()) {
    const auto axis = axis_on(name.site, named);
    if (axis == Axis::key) keys = &index;
    if (axis != Axis::pos && axis != Axis::query) continue;
    if (std::holds_alternative<AxisIndex::Last>(index.value)) continue;
    const std::string where = name.to_string();
    const AxisContext context{name.site, where, {}};
    const auto places = resolve_places(index, {context, *axis, step.end, step.limit});
    if (std::find(places.begin(), places.end(), step.first) == places.end()) return nullptr;
  }
  return keys;
}

}  // namespace

void require_no_padding(const ActivationName& name, const AxisIndices& indices,
                        const ColumnsOfAxis& columns_of) {
  for (const auto& [named, index] : indices.entries()) {
    const auto axis = axis_on(name.site, named);
    if (!axis || !counts_tokens(*axis)) continue;
    const TokenColumns* known = columns_of(*axis);
    if (known == nullptr) continue;
    TokenColumns columns = *known;
    if (*axis != Axis::key) columns.prefix_mask = at::Tensor();  // only keys are columns of a prefix
    const at::Tensor& mask = columns.mask.defined() ? columns.mask : columns.prefix_mask;
    if (!mask.defined()) continue;
    require_real(index, columns, rows_of(indices, mask.size(0)), name.to_string() + indices.to_string());
  }
}

void require_no_padding(const WatchPlan& plan, const RunExtent& extent) {
  if (!may_have_padding(extent.columns) && !(extent.encoder && may_have_padding(*extent.encoder))) return;
  const TokenColumns main = extent.columns.tokens();
  const TokenColumns source = extent.encoder ? extent.encoder->tokens() : TokenColumns();
  const auto check = [&](const ActivationName& name, const AxisIndices& indices) {
    require_no_padding(name, indices, [&](Axis axis) {
      return extent.encoder && counts_source(name, axis) ? &source : &main;
    });
  };
  for (const std::size_t point : plan.watched_points()) {
    const ActivationName name = plan.points().name(point);
    const WatchPlan::PointPlan& watched = *plan.find(point);
    for (const WatchPlan::PointEdit& edit : watched.edits) check(name, edit.indices);
    const auto& positions = plan.kept().positions;
    if (!positions || !(watched.capture || watched.gradient) || !axis_on(name.site, Axis::pos)) continue;
    AxisIndices kept;
    kept.add(Axis::pos, *positions);
    check(name, kept);
  }
}

void require_no_padded_keys(const WatchPlan& plan, const RunColumns& prompt, std::int64_t end) {
  if (!may_have_padding(prompt)) return;
  at::Tensor earlier = prompt.prefix_mask;  // of the columns before the new ones
  if (prompt.mask.defined()) {
    if (!earlier.defined())
      earlier = at::ones({prompt.mask.size(0), prompt.first}, prompt.mask.options().dtype(at::kBool));
    earlier = at::cat({earlier, prompt.mask}, 1);
  }
  for (const std::size_t point : plan.watched_points()) {
    const ActivationName& name = plan.points().name(point);
    if (name.stack != plan.points().stacks().main()) continue;
    for (const WatchPlan::PointEdit& edit : plan.find(point)->edits) {
      for (std::int64_t column = prompt.end; column < end; ++column) {
        const RunColumns step{.first = column, .end = column + 1, .limit = end, .prefix_mask = earlier};
        if (const AxisIndex* keys = keys_in_step(edit, name, step)) {
          require_real(*keys, step.tokens(), rows_of(edit.indices, earlier.size(0)),
                       name.to_string() + edit.indices.to_string());
        }
      }
    }
  }
}

}  // namespace hooked
