#include "hooked/analysis/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/places/cache_reading.h"
#include "analysis/places/row_columns.h"
#include "analysis/reading/scored_patterns.h"
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

/// What is looked for, or how attention is spread.
struct Sought {
  /// Numbers that broadcast to [row, query, key], on the CPU.
  std::function<at::Tensor(const QueryRange&)> pattern = nullptr;
  HeadMeasure measure = HeadMeasure::share;
  std::optional<HeadScore> spread = std::nullopt;
  Grid::Description description = {};

  /// Whether several rows have the quotient of their sums; else the mean of their quotients, as in
  /// TransformerLens.
  bool pools_rows() const { return spread || measure == HeadMeasure::share; }
};

/// Which of some queries and of all keys count, as numbers on the device of the patterns: [row, 1, query,
/// key].
struct Counted {
  at::Tensor keys;      ///< for real tokens, without the excluded ones
  at::Tensor excluded;  ///< undefined: none is
  at::Tensor queries;   ///< [row, 1, query] for real tokens
  at::Tensor distance;  ///< [query, key], tokens
  double least;         ///< smaller sums have lost digits in the dtype of the patterns
};

// The smallest number of a dtype that has all digits.
double smallest_normal(at::ScalarType dtype) {
  if (dtype == at::kDouble) return std::numeric_limits<double>::min();
  return dtype == at::kHalf ? 0x1p-14 : std::numeric_limits<float>::min();
}

/// How the attention of each query is spread over the keys that count.
struct Spread {
  at::Tensor shares;  ///< [row, head, query, key], of each query 1 in all
  at::Tensor any;     ///< [row, head, query]: whether it attends to any such key
};

Spread spread_of(const at::Tensor& attention, const Counted& counted) {
  const auto left = attention * counted.keys;
  const auto total = left.sum(-1);  // [row, head, query]
  // If an excluded token takes all attention, only a few of the smallest numbers are left, and their
  // distribution depends on the implementation.
  const auto any = total.ge(counted.least);
  return {left / total.masked_fill(any.logical_not(), 1.0).unsqueeze(-1), any};
}

/// `attention` [row, head, query, key] in float64; `wanted` [row, 1, query, key] is zero for what does not
/// count.
Sums sums_of(const at::Tensor& attention, const Counted& counted, const at::Tensor& wanted,
             HeadMeasure measure) {
  if (measure == HeadMeasure::abs) {
    const auto queries = counted.queries.sum(2).expand({-1, attention.size(1)});
    return {queries - ((attention - wanted).abs() * counted.keys).sum(kQueriesAndKeys), queries};
  }
  const auto found = (attention * wanted).sum(kQueriesAndKeys);
  if (measure == HeadMeasure::mul) return {found, (attention * counted.keys).sum(kQueriesAndKeys)};
  const auto looking = wanted.ne(0).any(-1).to(at::kDouble);  // [row, 1, query]
  auto given = looking.sum(2).expand({-1, attention.size(1)});
  if (counted.excluded.defined())
    given = given - (attention * counted.excluded * looking.unsqueeze(-1)).sum(kQueriesAndKeys);
  return {found, given};
}

/// Where a head of some kind looks, bool, broadcast to [row, query, key].
using Pattern = std::function<at::Tensor(const QueryRange&)>;

/// What patterns are made from.
struct Seen {
  const ActivationCache& cache;
  const ScoredPatterns& attended;
  const HeadScoreOptions& options;
};

Pattern at_distance(const Seen& seen, std::int64_t back) {
  return [&attended = seen.attended, back](const QueryRange& some) {
    return attended.key_places().eq(some.places() - back).unsqueeze(0);
  };
}

/// Earlier keys with the query's token, or the ones after them. Rows are padded only at their ends, so
/// everything between two real tokens is real.
Pattern of_same_token(const Seen& seen, bool after) {
  const at::Tensor ids = seen.attended.tokens(seen.cache, seen.options.tokens);
  return [&attended = seen.attended, ids, after](const QueryRange& some) {
    const at::Tensor before = after ? ids.roll({1}, {1}) : ids;
    const at::Tensor same =
        ids.slice(1, some.begin, some.end).unsqueeze(2).eq(before.unsqueeze(1));  // [row, query, key]
    const at::Tensor keys = attended.key_places();
    const at::Tensor earlier =
        after ? keys.le(some.places()).logical_and(keys.gt(0)) : keys.lt(some.places());
    return same.logical_and(earlier);
  };
}

// A function for each row of the table, under the row's name and in the namespace of its kind.

namespace columns_scores {

Pattern first_token(const Seen& seen) {
  return [&attended = seen.attended](const QueryRange&) { return attended.first_keys().unsqueeze(1); };
}
Pattern current_token(const Seen& seen) { return at_distance(seen, 0); }
Pattern previous_token(const Seen& seen) { return at_distance(seen, 1); }

}  // namespace columns_scores

namespace ids_scores {

Pattern duplicate_token(const Seen& seen) { return of_same_token(seen, /*after=*/false); }
Pattern induction(const Seen& seen) { return of_same_token(seen, /*after=*/true); }

}  // namespace ids_scores

namespace spread_scores {

Sums entropy(const Spread& spread, const Counted&) {
  return {-at::xlogy(spread.shares, spread.shares).sum(kQueriesAndKeys), spread.any.sum(2)};
}
Sums distance(const Spread& spread, const Counted& counted) {
  return {(spread.shares * counted.distance).sum(kQueriesAndKeys), spread.any.sum(2)};
}

}  // namespace spread_scores

using PatternFunction = Pattern (*)(const Seen&);
using SpreadFunction = Sums (*)(const Spread&, const Counted&);

#define HOOKED_HEAD_SCORE(score, kind, crosses, unit, says) &kind##_scores::score,
/// In the order of the table. A row without its function does not compile.
constexpr std::variant<PatternFunction, SpreadFunction> kScoreFunctions[] = {
#include "hooked/core/head_scores.inc"
};

template <typename Function>
Function function_of(HeadScore score) {
  return std::get<Function>(kScoreFunctions[static_cast<std::size_t>(score)]);
}

// The most float64 numbers in a tile of attention: several tensors of its size exist at a time.
constexpr std::int64_t kTileNumbers = std::int64_t{1} << 21;

/// The sums of every head, some queries at a time.
std::vector<HeadSums> all_sums(const ActivationCache& cache, const ScoredPatterns& attended,
                               const std::vector<Sought>& sought) {
  const auto device = attended.device;
  const auto on_device = [&](const at::Tensor& mask) { return to_device(mask.to(at::kDouble), device); };
  const auto nothing = [&] {
    return at::zeros({static_cast<std::int64_t>(attended.layers.size()), attended.rows(), attended.heads},
                     at::TensorOptions(at::kDouble).device(device));
  };
  std::vector<HeadSums> all;
  for (const Sought& one : sought) {
    all.push_back({.layers = {},
                   .above = nothing(),
                   .below = nothing(),
                   .pools_rows = one.pools_rows(),
                   .any_key = one.spread || one.measure != HeadMeasure::share,
                   .description = one.description});
    for (const auto& layer : attended.layers) {
      const auto number = static_cast<std::int64_t>(all.back().layers.size());
      all.back().layers.push_back(layer.name);
      if (!layer.kept) all.back().below[number].fill_(std::numeric_limits<double>::quiet_NaN());
    }
  }
  const std::int64_t queries = attended.queries.size(1);
  const std::int64_t of_a_query = attended.rows() * attended.heads * attended.keys.size(1);
  const std::int64_t together = std::clamp<std::int64_t>(kTileNumbers / of_a_query, 1, queries);
  for (QueryRange some{0, together}; some.begin < queries;
       some = {some.end, std::min(some.end + together, queries)}) {
    const at::Tensor left_out = attended.excluded(some), countable = attended.counted(some);
    const Counted counted{.keys = on_device(countable).unsqueeze(1),
                          .excluded = left_out.defined() ? on_device(left_out).unsqueeze(1) : at::Tensor(),
                          .queries = on_device(attended.queries.slice(1, some.begin, some.end)).unsqueeze(1),
                          .distance = on_device((some.places() - attended.key_places()).abs()),
                          .least = smallest_normal(attended.dtype)};
    std::vector<at::Tensor> wanted;
    for (std::size_t i = 0; i < sought.size(); ++i) {
      wanted.emplace_back();
      if (sought[i].spread) continue;
      const at::Tensor numbers = sought[i].pattern(some).to(at::kCPU, at::kDouble) * countable;
      all[i].any_key = all[i].any_key || numbers.count_nonzero().item<std::int64_t>() > 0;
      wanted.back() = to_device(numbers, device).unsqueeze(1);
    }
    for (std::size_t l = 0; l < attended.layers.size(); ++l) {
      if (!attended.layers[l].kept) continue;
      const Address whole(attended.layers[l].name);
      const at::Tensor attention =
          to_device(cache[together == queries ? whole : whole.query(AxisIndex::Range{some.begin, some.end})],
                    device)
              .to(at::kDouble);
      for (std::size_t i = 0; i < sought.size(); ++i) {
        const Sums of_some = sought[i].spread ? function_of<SpreadFunction>(*sought[i].spread)(
                                                    spread_of(attention, counted), counted)
                                              : sums_of(attention, counted, wanted[i], sought[i].measure);
        all[i].above[static_cast<std::int64_t>(l)] += of_some.above;
        all[i].below[static_cast<std::int64_t>(l)] += of_some.below;
      }
    }
  }
  return all;
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

}  // namespace

Grid HeadSums::scores(HeadRows rows) const {
  if (!any_key) {
    throw ShapeError(
        description.title,
        "no position has a token to look at; expected one, of repetitions tokens that occur more "
        "than once (repeated_random_tokens makes some), or the measure mul");
  }
  GridAxis layer_axis = numbered_axis("layer", above.size(0));
  layer_axis.places.assign(layers.begin(), layers.end());
  GridAxis head_axis = numbered_axis("head", above.size(2));
  if (rows == HeadRows::each) {
    return Grid((above / below).movedim(1, 0),  // 0 / 0 is NaN: nothing in the row counts
                {numbered_axis("row", above.size(1)), std::move(layer_axis), std::move(head_axis)},
                description);
  }
  // Rows in which nothing counts are left out; numbers that are not finite are not.
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
  throw HookError(name,
                  fmt::format("there is no score of heads of this name{}; expected one of {}",
                              nearest_text("; the nearest is {}", name, names), fmt::join(names, ", ")));
}

std::vector<HeadSums> head_sums(const ActivationCache& cache, const std::vector<HeadScore>& scores,
                                const HeadScoreOptions& options) {
  const std::string_view where = scores.size() == 1 ? head_score_row(scores.front()).name : "head_scores";
  const ScoredPatterns attended(cache, options, where);
  std::vector<Sought> sought;
  for (const HeadScore score : scores) {
    const auto& row = head_score_row(score);
    if (attended.crosses && !row.crosses) {
      throw HookError(
          row.name,
          "in cross-attention queries and keys are of two texts, where this score has no meaning; "
          "expected first_token, entropy or a pattern");
    }
    if (row.kind == HeadScoreKind::spread) {
      sought.push_back({.spread = score, .description = described(row.says, row.unit, options)});
    } else {
      sought.push_back({.pattern = function_of<PatternFunction>(score)({cache, attended, options}),
                        .measure = options.measure,
                        .description = described(row.says, unit_of(options.measure), options)});
    }
  }
  return all_sums(cache, attended, sought);
}

Grid head_scores(const ActivationCache& cache, HeadScore score, const HeadScoreOptions& options) {
  const auto& row = head_score_row(score);
  if (row.kind == HeadScoreKind::spread && options.measure != HeadMeasure::share) {
    throw HookError(row.name,
                    "this score compares attention with no pattern; expected the measure share, its default");
  }
  return head_sums(cache, {score}, options).front().scores(options.rows);
}

Grid head_scores(const ActivationCache& cache, const at::Tensor& pattern, const HeadScoreOptions& options) {
  constexpr std::string_view kWhere = "head_scores";
  const ScoredPatterns attended(cache, options, kWhere);
  const std::vector<std::int64_t> sizes{attended.rows(), attended.queries.size(1), attended.keys.size(1)};
  const at::IntArrayRef of_a_batch(sizes), of_a_row = of_a_batch.slice(1);
  const bool fits = pattern.defined() && (pattern.sizes() == of_a_row || pattern.sizes() == of_a_batch);
  if (!fits) {
    throw ShapeError(
        kWhere,
        fmt::format("the pattern is not that of the cache's queries and keys; expected shape {} or {}, "
                    "got {}",
                    shape_text(of_a_row), shape_text(of_a_batch),
                    pattern.defined() ? shape_text(pattern.sizes()) : "an undefined tensor"));
  }
  const Sought sought{
      .pattern = [&](const QueryRange& some) { return pattern.slice(-2, some.begin, some.end); },
      .measure = options.measure,
      .description = described("Attention to a pattern", unit_of(options.measure), options)};
  return all_sums(cache, attended, {sought}).front().scores(options.rows);
}

}  // namespace hooked
