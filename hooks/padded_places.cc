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

// The columns of `length` that an index counts from the end: of a range that begins there, all.
std::vector<std::int64_t> columns_from_the_end(const AxisIndex& index, std::int64_t length) {
  std::vector<std::int64_t> columns;
  const auto add = [&](std::int64_t place) {
    if (place < 0 && place + length >= 0) columns.push_back(place + length);
  };
  if (const auto* one = std::get_if<std::int64_t>(&index.value)) {
    add(*one);
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&index.value)) {
    for (const std::int64_t place : *list) add(place);
  } else if (const auto* range = std::get_if<AxisIndex::Range>(&index.value)) {
    const std::int64_t begin = range->begin.value_or(0), end = range->end.value_or(length);
    if (begin < 0) {
      const std::int64_t last = std::min(end < 0 ? end + length : end, length) - 1;
      for (std::int64_t column = std::max<std::int64_t>(begin + length, 0); column <= last; ++column)
        columns.push_back(column);
    } else if (end < 0) {
      add(end - 1);
    }
  }
  return columns;
}

// Which rows an address is about; nothing: all.
std::optional<std::vector<std::int64_t>> rows_of(const AxisIndices& indices, std::int64_t batch) {
  const AxisIndex* rows = indices.find(Axis::batch);
  if (rows == nullptr || std::holds_alternative<AxisIndex::Last>(rows->value)) return std::nullopt;
  const AxisContext context{Site::tokens, "batch", {}};
  return resolve_places(*rows, {context, Axis::batch, batch});
}

bool has_token_before(const TokenColumns& columns, std::int64_t row, std::int64_t column) {
  while (column-- > 0) {
    if (!columns.is_padding(row, column)) return true;
  }
  return false;
}

void require_tokens(const AxisIndex& index, Axis axis, const TokenColumns& columns,
                    const std::optional<std::vector<std::int64_t>>& rows, std::string_view where) {
  for (const std::int64_t column : columns_from_the_end(index, columns.end)) {
    const at::Tensor there = columns.rows_with_token(column);
    if (!there.defined()) continue;
    const at::Tensor real = there.cpu();
    for (std::int64_t row = 0; row < real.size(0); ++row) {
      if (real[row].item<bool>() || (rows && std::find(rows->begin(), rows->end(), row) == rows->end()))
        continue;
      const bool keys = axis == Axis::key || axis == Axis::source_key;  // which have no `last`
      throw HookError(
          where, fmt::format(
                     "position {} is padding in row {}, whose last token is at {}; expected a token in every "
                     "row; {}give positions from 0 on, or {}",
                     column - columns.end, row, columns.last(real.size(0))[row].item<std::int64_t>(),
                     keys ? "" : "use `last`, ",
                     has_token_before(columns, row, column) ? "pad on the left"
                                                            : "address only rows that have a token there"));
    }
  }
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
    require_tokens(index, *axis, columns, rows_of(indices, mask.size(0)),
                   name.to_string() + indices.to_string());
  }
}

void require_no_padding(const WatchPlan& plan, const RunExtent& extent) {
  const auto may_have_padding = [](const RunColumns& columns) {
    return columns.mask.defined() || columns.prefix_mask.defined();
  };
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

}  // namespace hooked
