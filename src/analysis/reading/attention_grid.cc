#include "hooked/analysis/attention_grid.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/places/cache_reading.h"
#include "analysis/places/named_tokens.h"
#include "analysis/places/row_columns.h"
#include "analysis/reading/scored_patterns.h"
#include "hooked/core/error.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

constexpr const char* kAttentionGrid = "attention_grid";

void require_attention(const Address& attention) {
  const SiteRow& site = row(attention.name().site);
  if (!site.axes.find(Axis::query)) {
    throw HookError(attention.to_string(),
                    fmt::format("{} is not attention; expected `pattern` or `attn_scores` of a layer, "
                                "or those of cross-attention",
                                site.word));
  }
  for (const auto& [axis, index] : attention.indices().entries()) {
    const bool one = std::holds_alternative<std::int64_t>(index.value);
    if (one && (axis == Axis::batch || axis_on(attention.name().site, axis) == Axis::head)) continue;
    throw HookError(attention.to_string(),
                    fmt::format("'{}' is not a picture of attention; expected at most one row and one head",
                                attention.indices().to_string()));
  }
}

/// The columns along one axis of attention: of all rows, or the real tokens of one row with their texts.
RowColumns real_columns(const HookedTransformer& model, const TokenColumns& all, std::int64_t rows,
                        std::optional<std::int64_t> row) {
  if (!row) return RowColumns::of({}, rows, all);
  const auto own = [&](const at::Tensor& of_rows) {
    return of_rows.defined() ? of_rows.narrow(0, *row, 1).to(at::kCPU) : at::Tensor();
  };
  const TokenColumns tokens{.first = all.first, .end = all.end, .mask = own(all.mask), .ids = own(all.ids)};
  std::vector<Position> real;
  for (std::int64_t column = tokens.first; column < tokens.end; ++column) {
    if (!tokens.is_padding(0, column)) real.emplace_back(column);
  }
  RowColumns columns = RowColumns::of(real, 1, tokens);
  name_tokens(columns.axis, model, tokens, columns.columns);
  return columns;
}

/// `Attention, layer 5, head 3`, `Encoder attention scores, layer 0`.
Grid::Description attention_words(const ActivationName& name, const Address& attention, bool several_rows) {
  const bool crosses = name.site == Site::cross_pattern || name.site == Site::cross_attn_scores;
  const bool shares = name.site == Site::pattern || name.site == Site::cross_pattern;
  std::string title = crosses                        ? "Cross-attention"
                      : name.stack == Stack::encoder ? "Encoder attention"
                                                     : "Attention";
  title += fmt::format("{}, layer {}", shares ? "" : " scores", name.layer);
  const auto add = [&](Axis axis, const char* what) {
    const AxisIndex* index = attention.indices().find(axis);
    if (index != nullptr) title += fmt::format(", {} {}", what, index->to_string());
  };
  add(Axis::head, "head");
  if (several_rows) add(Axis::batch, "row");
  return {.title = std::move(title), .unit = shares ? "share of attention" : "score"};
}

}  // namespace

Grid attention_grid(const HookedTransformer& model, const ActivationCache& cache, const Address& attention) {
  require_cache_of(model, cache, kAttentionGrid);
  require_attention(attention);
  const ActivationCache::Entry& entry = cache.entry(attention.name());
  const ActivationName& name = entry.name;
  require_all_positions(cache, name, "a picture of attention");
  const std::vector<std::int64_t> sizes = entry.held.sizes();  // [row, head, query, key]
  const bool crosses = name.site == Site::cross_pattern || name.site == Site::cross_attn_scores;
  at::Tensor values = cache[attention].to(at::kCPU, at::kDouble);
  std::optional<std::int64_t> of_row;
  if (const AxisIndex* asked = attention.indices().find(Axis::batch)) {
    const auto number = std::get<std::int64_t>(asked->value);
    of_row = number < 0 ? number + sizes[0] : number;
  } else if (sizes[0] == 1) {
    of_row = 0;
    values = values.squeeze(0);
  }
  const auto along = [&](Axis axis, std::int64_t length) {
    const auto& known = tokens_along(cache, name, axis);
    require_no_prefix(known, kAttentionGrid);
    return real_columns(model, known ? *known : TokenColumns{.first = 0, .end = length}, sizes[0], of_row);
  };
  RowColumns queries = along(Axis::query, sizes[2]);
  RowColumns keys = along(crosses ? Axis::source_key : Axis::key, sizes[3]);
  std::vector<GridAxis> axes;
  if (of_row) {
    values = values.index_select(-2, queries.columns[0]).index_select(-1, keys.columns[0]);
  } else {
    axes.push_back(numbered_axis("row", sizes[0]));
    values = without_padding(without_padding(values, keys).transpose(-1, -2), queries).transpose(-1, -2);
  }
  if (attention.indices().find(Axis::head) == nullptr) {
    axes.push_back(numbered_axis("head", sizes[1]));
    for (std::int64_t head = 0; head < sizes[1]; ++head)
      axes.back().places.emplace_back(Address(name).head(head));
  }
  for (auto [columns, called] : {std::pair{&queries, "query"}, std::pair{&keys, "key"}}) {
    columns->axis.name = called;
    axes.push_back(std::move(columns->axis));
  }
  return Grid(values, std::move(axes), attention_words(name, attention, sizes[0] > 1));
}

}  // namespace hooked
