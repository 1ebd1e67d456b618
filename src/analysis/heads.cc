#include "hooked/analysis/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/cache_reading.h"
#include "analysis/head_sums.h"
#include "analysis/numberless.h"
#include "analysis/row_columns.h"
#include "analysis/scored_patterns.h"
#include "core/nearest.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

namespace head_score_table {

using enum HeadScoreKind;

#define HOOKED_HEAD_SCORE(score, kind, crosses, unit, says) \
  HeadScoreRow{HeadScore::score, #score, kind, crosses, unit, says},
constexpr std::array kRows{
#include "hooked/core/head_scores.inc"
};

}  // namespace head_score_table

constexpr std::array<std::int64_t, 2> kQueriesAndKeys{2, 3};  // dimensions of a pattern

/// A quotient of two sums over each row's queries and keys, of one layer: [row, head].
struct Sums {
  at::Tensor above, below;
};

/// What is looked for: a pattern [row, 1, query, key] on the device of the patterns, zero where nothing
/// counts, or how attention is spread.
struct Sought {
  at::Tensor pattern = {};
  HeadMeasure measure = HeadMeasure::share;
  std::optional<HeadScore> spread = std::nullopt;

  /// Whether several rows have the quotient of their sums; else the mean of their quotients, as
  /// TransformerLens has it.
  bool pools_rows() const { return spread || measure == HeadMeasure::share; }
};

/// Which queries and keys count, as numbers on the device of the patterns: [row, 1, query, key].
struct Counted {
  at::Tensor keys;      ///< of real tokens, without the excluded ones
  at::Tensor excluded;  ///< undefined: none is
  at::Tensor queries;   ///< [row, 1, query] of real tokens
  double least;         ///< smaller sums have lost their digits in the dtype of the patterns
};

// The smallest number of a dtype that has all digits.
double smallest_normal(at::ScalarType dtype) {
  if (dtype == at::kDouble) return std::numeric_limits<double>::min();
  return dtype == at::kHalf ? 0x1p-14 : std::numeric_limits<float>::min();
}

Sums spread_sums(const at::Tensor& attention, const Counted& counted, HeadScore score) {
  const auto left = attention * counted.keys;
  const auto total = left.sum(-1);  // [row, head, query]
  // Without a token that takes all attention what is left is a few of the smallest numbers, and how these are
  // spread depends on who computed them.
  const auto any = total.ge(counted.least);
  const auto of_one = left / total.masked_fill(any.logical_not(), 1.0).unsqueeze(-1);
  if (score == HeadScore::entropy) return {-at::xlogy(of_one, of_one).sum(kQueriesAndKeys), any.sum(2)};
  const auto size = attention.size(2);
  const auto column = at::arange(size, attention.options());
  const auto distance = (column.unsqueeze(1) - column.unsqueeze(0)).abs();  // [query, key]
  return {(of_one * distance).sum(kQueriesAndKeys), any.sum(2)};
}

/// `attention` [row, head, query, key] in float64.
Sums sums_of(const at::Tensor& attention, const Counted& counted, const Sought& sought) {
  if (sought.spread) return spread_sums(attention, counted, *sought.spread);
  if (sought.measure == HeadMeasure::abs) {
    const auto queries = counted.queries.sum(2).expand({-1, attention.size(1)});
    return {queries - ((attention - sought.pattern).abs() * counted.keys).sum(kQueriesAndKeys), queries};
  }
  const auto found = (attention * sought.pattern).sum(kQueriesAndKeys);
  if (sought.measure == HeadMeasure::mul) return {found, (attention * counted.keys).sum(kQueriesAndKeys)};
  const auto looking = sought.pattern.ne(0).any(-1).to(at::kDouble);  // [row, 1, query]
  auto given = looking.sum(2).expand({-1, attention.size(1)});
  if (counted.excluded.defined())
    given = given - (attention * counted.excluded * looking.unsqueeze(-1)).sum(kQueriesAndKeys);
  return {found, given};
}

/// The sums of every head.
HeadSums all_sums(const ActivationCache& cache, const ScoredPatterns& attended, const Sought& sought,
                  Grid::Description description) {
  const auto device = attended.device;
  const auto numbers = [&](const at::Tensor& mask) { return to_device(mask.to(at::kDouble), device); };
  const auto shown = std::ranges::find_if(attended.layers, [](const auto& layer) { return layer.kept; });
  const Counted counted{
      .keys = numbers(attended.counted()).unsqueeze(1),
      .excluded = attended.excluded.defined() ? numbers(attended.excluded).unsqueeze(1) : at::Tensor(),
      .queries = numbers(attended.queries).unsqueeze(1),
      .least = smallest_normal(cache[Address(shown->name)].scalar_type())};
  HeadSums all{.layers = {},
               .above = {},
               .below = {},
               .pools_rows = sought.pools_rows(),
               .any_key = true,
               .description = std::move(description)};
  std::vector<at::Tensor> above, below;
  const auto none =
      numberless({attended.rows(), attended.heads}, at::TensorOptions(at::kDouble).device(device));
  for (const auto& layer : attended.layers) {
    all.layers.push_back(layer.name);
    Sums sums{none, none};
    if (layer.kept)
      sums = sums_of(to_device(cache[Address(layer.name)], device).to(at::kDouble), counted, sought);
    above.push_back(sums.above);
    below.push_back(sums.below.to(at::kDouble));
  }
  all.above = at::stack(above);
  all.below = at::stack(below);
  return all;
}

/// [row, query, key]: an earlier place with the query's token.
at::Tensor same_token_before(const at::Tensor& tokens) {
  return tokens.unsqueeze(2).eq(tokens.unsqueeze(1)).tril(-1);
}

/// [row, query, key]: the places behind these, and still not after the query. Rows are padded at their ends
/// only, so what stands between two real tokens is real.
at::Tensor places_behind(const at::Tensor& places) {
  auto behind = at::zeros_like(places);
  const auto positions = places.size(2);
  behind.narrow(2, 1, positions - 1).copy_(places.narrow(2, 0, positions - 1));
  return behind.tril();
}

/// Where a head of that kind looks, bool [row, query, key] or broadcast to it.
at::Tensor pattern_of(HeadScore score, const ActivationCache& cache, const ScoredPatterns& attended,
                      const HeadScoreOptions& options) {
  const auto size = attended.queries.size(1);
  switch (score) {
    case HeadScore::previous_token:
      return at::eye(size, at::kBool).roll({1}, {0}).tril(-1).unsqueeze(0);
    case HeadScore::current_token:
      return at::eye(size, at::kBool).unsqueeze(0);
    case HeadScore::first_token:
      return attended.first_keys().unsqueeze(1);
    case HeadScore::duplicate_token:
      return same_token_before(attended.tokens(cache, options.tokens));
    default:
      return places_behind(same_token_before(attended.tokens(cache, options.tokens)));
  }
}

std::string_view unit_of(HeadMeasure measure) {
  if (measure == HeadMeasure::abs) return "1 - distance from the pattern";
  return measure == HeadMeasure::mul ? "share of all attention" : "share of attention";
}

Grid::Description described(std::string_view says, std::string_view unit, const HeadScoreOptions& options) {
  std::string title(says);
  if (options.site.site == Site::cross_pattern) title += ", in cross-attention";
  if (options.exclude_bos) title += ", without the first token";
  if (options.exclude_current_token) title += ", without the token itself";
  return {.title = std::move(title), .unit = std::string(unit)};
}

/// By the keys that `wanted` [row, query, key] says, of which what does not count is left out.
HeadSums sums_by_keys(const ActivationCache& cache, const ScoredPatterns& attended, const at::Tensor& wanted,
                      const HeadScoreOptions& options, Grid::Description description) {
  const auto pattern = wanted.to(at::kCPU, at::kDouble) * attended.counted();
  auto sums = all_sums(cache, attended, {to_device(pattern, attended.device).unsqueeze(1), options.measure},
                       std::move(description));
  sums.any_key = options.measure != HeadMeasure::share || pattern.count_nonzero().item<std::int64_t>() > 0;
  return sums;
}

}  // namespace

Grid HeadSums::scores(HeadRows rows) const {
  if (!any_key) {
    throw ShapeError(
        description.title,
        "no position has a token to look at; expected one, of repetitions tokens that occur more "
        "than once (repeated_random_tokens makes some), or HeadMeasure::mul");
  }
  GridAxis layer_axis = numbered_axis("layer", above.size(0));
  layer_axis.places.assign(layers.begin(), layers.end());
  GridAxis head_axis = numbered_axis("head", above.size(2));
  if (rows == HeadRows::each) {
    return Grid((above / below).movedim(1, 0),  // 0 / 0 is NaN: nothing of the row counts
                {numbered_axis("row", above.size(1)), std::move(layer_axis), std::move(head_axis)},
                description);
  }
  // Rows of which nothing counts are left out; numbers that are not finite are not.
  const at::Tensor counted = below.ne(0);
  const at::Tensor by_row = (above / below).masked_fill(counted.logical_not(), 0.0);
  return Grid(pools_rows ? above.sum(1) / below.sum(1) : by_row.sum(1) / counted.sum(1),
              {std::move(layer_axis), std::move(head_axis)}, description);
}

std::span<const HeadScoreRow> head_score_rows() noexcept { return head_score_table::kRows; }

const HeadScoreRow& head_score_row(HeadScore score) noexcept {
  return head_score_table::kRows[static_cast<std::size_t>(score)];
}

const HeadScoreRow& head_score_row(std::string_view name) {
  std::vector<std::string> names;
  for (const HeadScoreRow& row : head_score_rows()) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw HookError(
      name, fmt::format("there is no score of heads of this name; the nearest is {}; expected one of {}",
                        nearest(name, names), fmt::join(names, ", ")));
}

HeadSums head_sums(const ActivationCache& cache, HeadScore score, const HeadScoreOptions& options) {
  const auto& row = head_score_row(score);
  const ScoredPatterns attended(cache, options, row.name);
  if (attended.crosses && !row.crosses) {
    throw HookError(row.name,
                    "in cross-attention queries and keys are of two texts, where this score has no meaning; "
                    "expected first_token, entropy or a pattern");
  }
  if (row.kind != HeadScoreKind::spread) {
    const auto wanted = pattern_of(score, cache, attended, options);
    return sums_by_keys(cache, attended, wanted, options,
                        described(row.says, unit_of(options.measure), options));
  }
  if (options.measure != HeadMeasure::share) {
    throw HookError(
        row.name, "this score compares attention with no pattern; expected HeadMeasure::share, its default");
  }
  return all_sums(cache, attended, {.pattern = {}, .measure = options.measure, .spread = score},
                  described(row.says, row.unit, options));
}

Grid head_scores(const ActivationCache& cache, HeadScore score, const HeadScoreOptions& options) {
  return head_sums(cache, score, options).scores(options.rows);
}

Grid head_scores(const ActivationCache& cache, const at::Tensor& pattern, const HeadScoreOptions& options) {
  constexpr std::string_view kWhere = "head_scores";
  const ScoredPatterns attended(cache, options, kWhere);
  const auto counted = attended.counted();
  const auto sizes = counted.sizes();
  const bool fits = pattern.defined() && ((pattern.dim() == 2 && pattern.sizes() == sizes.slice(1)) ||
                                          (pattern.dim() == 3 && pattern.sizes() == sizes));
  if (!fits) {
    throw ShapeError(
        kWhere,
        fmt::format("the pattern is not that of the cache's queries and keys; expected shape {} or {}, "
                    "got {}",
                    shape_text(sizes.slice(1)), shape_text(sizes),
                    pattern.defined() ? shape_text(pattern.sizes()) : "an undefined tensor"));
  }
  return sums_by_keys(cache, attended, pattern, options,
                      described("Attention to a pattern", unit_of(options.measure), options))
      .scores(options.rows);
}

}  // namespace hooked
