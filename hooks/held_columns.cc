#include "hooks/held_columns.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <variant>

#include "core/id_list.h"
#include "hooked/core/error.h"
#include "hooked/hooks/axis_block.h"

namespace hooked {
namespace {

// Neighbours as a range, which yields a view.
AxisIndex index_of(const std::vector<std::int64_t>& places, const AxisIndex& asked) {
  if (std::holds_alternative<std::int64_t>(asked.value)) return places.front();
  const auto apart = [](std::int64_t a, std::int64_t b) { return b != a + 1; };
  if (std::adjacent_find(places.begin(), places.end(), apart) != places.end()) return places;
  return AxisIndex::Range{places.front(), places.back() + 1};
}

/// How many axes of a site come before `axis` in a block that `indices` pick.
std::int64_t axes_before(Axis axis, Site site, const AxisIndices& indices) {
  std::int64_t count = 0;
  for (const Axis own : row(site).axes) {
    if (own == axis) break;
    const AxisIndex* index = indices.find(own);
    count += index == nullptr || !std::holds_alternative<std::int64_t>(index->value) ? 1 : 0;
  }
  return count;
}

}  // namespace

const std::optional<TokenColumns>& tokens_along(const ActivationCache& cache, const ActivationName& name,
                                                Axis axis) {
  const auto& of_encoder = cache.tokens(Stack::encoder);
  return of_encoder && counts_source(name, axis) ? of_encoder : cache.tokens();
}

bool counts_tokens(Axis axis) {
  return axis == Axis::pos || axis == Axis::source || axis == Axis::query || axis == Axis::key ||
         axis == Axis::source_key;
}

HeldColumns::HeldColumns(const ActivationCache& cache, const ActivationCache::Entry& entry)
    : entry_(entry),
      axis_(axis_on(entry.name.site, Axis::pos)),
      tokens_(axis_ ? tokens_along(cache, entry.name, *axis_) : cache.tokens()) {}

bool HeldColumns::all() const {
  if (entry_.row_positions.defined()) return false;
  return entry_.positions.empty() || (tokens_ && tokens_->first == 0 && all_of_the_run());
}

bool HeldColumns::all_of_the_run() const {
  if (entry_.row_positions.defined()) return false;
  if (entry_.positions.empty()) return true;
  if (!tokens_ || tokens_->end - tokens_->first != std::ssize(entry_.positions)) return false;
  std::int64_t column = tokens_->first;
  return std::all_of(entry_.positions.begin(), entry_.positions.end(),
                     [&](std::int64_t position) { return position == column++; });
}

at::Tensor HeldColumns::held() const {
  if (entry_.row_positions.defined()) return entry_.row_positions.to(at::kCPU, at::kLong);
  return at::tensor(entry_.positions, at::kLong).unsqueeze(0);
}

at::Tensor HeldColumns::places(const at::Tensor& columns) const {
  if (all()) return columns;
  const at::Tensor matches = columns.unsqueeze(2).eq(held().unsqueeze(1));  // [row, column, held]
  return at::where(matches.any(2), matches.to(at::kLong).argmax(2), -1);
}

std::string HeldColumns::text() const {
  if (all()) return "all";
  if (!entry_.row_positions.defined()) return fmt::format("{}", fmt::join(entry_.positions, ", "));
  const at::Tensor own = held();
  std::vector<std::string> rows;
  for (std::int64_t row = 0; row < own.size(0); ++row)
    rows.push_back(fmt::format("{} in row {}", fmt::join(id_list(own[row]), ", "), row));
  return fmt::format("{}", fmt::join(rows, "; "));
}

at::Tensor HeldColumns::last_of_rows(const std::string& where) const {
  if (!tokens_ || (tokens_->mask.defined() && tokens_->mask.size(0) != batch())) {
    const at::Tensor& own = entry_.row_positions;
    if (own.defined() && own.size(1) == 1) return own.select(1, 0);  // kept as `last`
    throw HookError(where,
                    "this cache does not know where the tokens of its rows end; expected a cache that a run "
                    "made; give the position as a number");
  }
  return tokens_->last(batch());
}

at::Tensor HeldColumns::columns_of(const AxisIndex& index, const std::string& where) const {
  const auto from_the_end = [](const AxisIndex& of) {
    if (const auto* one = std::get_if<std::int64_t>(&of.value)) return *one < 0;
    if (const auto* range = std::get_if<AxisIndex::Range>(&of.value))
      return !range->end || *range->end < 0 || range->begin.value_or(0) < 0;
    const auto& list = std::get<std::vector<std::int64_t>>(of.value);
    return std::any_of(list.begin(), list.end(), [](std::int64_t one) { return one < 0; });
  };
  std::int64_t end = held().max().item<std::int64_t>() + 1;
  if (tokens_) {
    end = tokens_->end;
  } else if (from_the_end(index)) {
    throw HookError(where,
                    "this cache does not know how long its sequence is, and holds only some of the columns; "
                    "expected a cache that a run made; count columns from 0 on");
  }
  const AxisContext context{entry_.name.site, where, {}};
  return at::tensor(resolve_places(index, {context, *axis_, end}), at::kLong).unsqueeze(0);
}

void HeldColumns::require_held(const at::Tensor& places, const at::Tensor& columns,
                               const std::vector<std::int64_t>& rows, const std::string& where) const {
  for (const std::int64_t row : rows) {
    for (std::int64_t i = 0; i < columns.size(1); ++i) {
      if (places[places.size(0) == 1 ? 0 : row][i].item<std::int64_t>() >= 0) continue;
      const bool own = columns.size(0) > 1;
      throw HookError(
          where,
          fmt::format("{} {}, which is not held; expected one of the columns that are ({}); keep it in the "
                      "run (`keep` of its options, `logit_positions` for logits)",
                      own ? fmt::format("the last token of row {} is at column", row) : "this is column",
                      columns[own ? row : 0][i].item<std::int64_t>(), text()));
    }
  }
}

HeldColumns::Places HeldColumns::places_of(const AxisIndices& indices, const at::Tensor& last_columns) const {
  const auto is_last = [](const auto& entry) {
    return std::holds_alternative<AxisIndex::Last>(entry.second.value);
  };
  const auto& asked = indices.entries();
  if (all() && std::none_of(asked.begin(), asked.end(), is_last)) return {.indices = indices};
  Places found;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(axis_ ? batch() : 0));
  std::iota(rows.begin(), rows.end(), 0);
  const AxisContext context{entry_.name.site, entry_.name.to_string(), {}};
  if (const AxisIndex* some = indices.find(Axis::batch); some != nullptr && axis_)
    rows = resolve_places(*some, {context, Axis::batch, batch()});
  for (const auto& [axis, index] : indices.entries()) {
    const bool last = std::holds_alternative<AxisIndex::Last>(index.value);
    if (!axis_ || axis_on(entry_.name.site, axis) != axis_ || (all() && !last)) {
      found.indices.add(axis, index);
      continue;
    }
    const std::string where =
        fmt::format("{}[{}={}]", entry_.name.to_string(), axis_name(*axis_), index.to_string());
    at::Tensor columns;
    if (last) {
      found.last = last_columns.defined() ? last_columns : last_of_rows(where);
      found.indices.add(axis, index);
      if (all()) continue;
      columns = found.last.to(at::kCPU).unsqueeze(1);
    } else {
      columns = columns_of(index, where);
    }
    at::Tensor there = places(columns);  // [row or 1, column]
    require_held(there, columns, rows, where);
    if (last) {
      found.last = there.expand({batch(), 1}).select(1, 0).clamp_min(0);
      continue;
    }
    if (there.size(0) > 1) there = there.index_select(0, at::tensor(rows, at::kLong));
    if (there.eq(there[0]).all().item<bool>()) {
      found.indices.add(axis, index_of(id_list(there[0]), index));
      continue;
    }
    // Rows that are not asked for may hold none of the columns.
    for (const at::Tensor& place : places(columns).clamp_min(0).unbind(1)) found.each.push_back(place);
    found.indices.add(axis, AxisIndex::Last{});
  }
  return found;
}

at::Tensor HeldColumns::block(const AxisIndices& indices, const at::Tensor& last) const {
  const std::string where = entry_.name.to_string();
  const Site site = entry_.name.site;
  const Places places = places_of(indices, last);
  if (places.each.empty()) return entry_.held.block(entry_.name, places.indices, {site, where, places.last});
  std::vector<at::Tensor> columns;
  for (const at::Tensor& place : places.each)
    columns.push_back(entry_.held.block(entry_.name, places.indices, {site, where, place}));
  const bool one = std::holds_alternative<std::int64_t>(indices.find(*axis_)->value);
  return one ? columns.front() : at::stack(columns, axes_before(*axis_, site, places.indices));
}

}  // namespace hooked
