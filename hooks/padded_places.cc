#include "hooks/padded_places.h"

#include <ATen/TensorOperators.h>
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
    const std::int64_t column = place + columns.end - columns.first;
    if (column < 0) continue;  // out of range is reported elsewhere
    const at::Tensor real = columns.mask.select(1, column).cpu();
    for (std::int64_t row = 0; row < real.size(0); ++row) {
      if (real[row].item<bool>() || (rows && std::find(rows->begin(), rows->end(), row) == rows->end()))
        continue;
      throw HookError(where,
                      fmt::format("position {} is padding in row {}, whose last token is at {}; expected a "
                                  "token in every row; use `last`, give positions from 0 on, or pad on the "
                                  "left",
                                  place, row, columns.last(real.size(0))[row].item<std::int64_t>()));
    }
  }
}

}  // namespace

void require_no_padding(const ActivationName& name, const AxisIndices& indices,
                        const ColumnsOfAxis& columns_of) {
  for (const auto& [named, index] : indices.entries()) {
    const auto axis = axis_on(name.site, named);
    if (!axis || !counts_tokens(*axis)) continue;
    const TokenColumns* columns = columns_of(*axis);
    if (columns == nullptr || !columns->mask.defined()) continue;
    require_real(index, *columns, rows_of(indices, columns->mask.size(0)),
                 name.to_string() + indices.to_string());
  }
}

void require_no_padding(const WatchPlan& plan, const RunExtent& extent) {
  if (!extent.columns.mask.defined() && !(extent.encoder && extent.encoder->mask.defined())) return;
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

}  // namespace hooked
