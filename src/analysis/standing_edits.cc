#include "analysis/standing_edits.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <variant>

#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"
#include "hooks/watch_plan.h"

namespace hooked {
namespace {

/// Where `row` stands among the rows that an index names; nothing where it is none of them.
std::optional<std::int64_t> place_among(const AxisIndex& rows, SweptRow row) {
  const AxisContext context{Site::tokens, "batch", {}};
  if (std::holds_alternative<AxisIndex::Last>(rows.value))
    throw HookError("batch", "'last' is a place in a row's tokens; expected the number of a row");
  const auto places = resolve_places(rows, {context, Axis::batch, row.of});
  const auto found = std::find(places.begin(), places.end(), row.number);
  return found == places.end() ? std::nullopt : std::optional(found - places.begin());
}

/// One activation's part of an edit.
std::optional<Edit> edit_of_row(const Edit& edit, const ActivationName& name, SweptRow row) {
  Edit own = edit;
  own.target = {Selection(name), {}};
  std::int64_t rows = row.of, place = row.number, dropped = 0;
  bool keeps_rows = true;
  for (const auto& [axis, index] : edit.target.indices.entries()) {
    const bool drops = std::holds_alternative<std::int64_t>(index.value) ||
                       std::holds_alternative<AxisIndex::Last>(index.value);
    dropped += drops ? 1 : 0;
    if (axis != Axis::batch) {
      own.target.indices.add(axis, index);
      continue;
    }
    const auto among = place_among(index, row);
    if (!among) return std::nullopt;
    keeps_rows = !drops;
    place = *among;
    rows = static_cast<std::int64_t>(
        resolve_places(index, {{Site::tokens, "batch", {}}, Axis::batch, row.of}).size());
  }
  // What has a value for each row gives this row's, broadcast to all runs of it.
  if (auto* value = std::get_if<at::Tensor>(&own.value); value != nullptr) {
    const auto rank = static_cast<std::int64_t>(hooked::row(name.site).axes.size()) - dropped;
    if (keeps_rows && value->dim() == rank && value->size(0) == rows && rows > 1)
      *value = value->narrow(0, place, 1);
    if (own.kind == EditKind::replace) own.kind = EditKind::set;
  }
  return own;
}

}  // namespace

std::vector<Edit> edits_of_row(const std::vector<Edit>& edits, const PointIndex& points, SweptRow row) {
  std::vector<Edit> own;
  for (const Edit& edit : edits) {
    for (const std::size_t point : edited_points(edit.target, points, Reach::everything(points))) {
      if (auto of_row = edit_of_row(edit, points.name(point), row)) own.push_back(std::move(*of_row));
    }
  }
  return own;
}

}  // namespace hooked
