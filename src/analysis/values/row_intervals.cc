#include "hooked/analysis/row_intervals.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/special_ndtr.h>
#include <ATen/ops/special_ndtri.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "analysis/values/row_major.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kNumbersAtOnce = std::int64_t{1} << 22;

void require_level(const char* where, double level) {
  if (level > 0 && level < 1) return;
  throw ConfigError(where,
                    fmt::format("the level is a share of the means; expected more than 0 and less than "
                                "1, got {}; 0.95 is usual",
                                level));
}

void require_resamples(const char* where, std::int64_t resamples) {
  if (resamples > 0) return;
  throw ConfigError(where, fmt::format("there is nothing to draw; expected 1 resample or more, got {}; 10000 "
                                       "is usual",
                                       resamples));
}

/// The numbers of a grid as [row, cell], with 0 for NaN, and which are there.
struct Rows {
  Rows(const Grid& grid, std::string_view axis) {
    const auto& found = grid.axis(axis);
    const std::int64_t dim = &found - grid.axes().data();
    const std::int64_t places = places_on(found);
    const at::Tensor values = grid.values().movedim(dim, 0).reshape(
        {places, grid.values().numel() / std::max<std::int64_t>(1, places)});
    there = values.isnan().logical_not().to(at::kDouble);
    numbers = values.nan_to_num(0.0, std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity());
  }
  std::int64_t rows() const { return numbers.size(0); }
  std::int64_t cells() const { return numbers.size(1); }
  /// The means of rows that count so often, [draw, row] to [draw, cell].
  at::Tensor means(const at::Tensor& counts) const { return counts.matmul(numbers) / counts.matmul(there); }

  at::Tensor numbers, there;
};

/// How often each of `rows` is among `rows` drawn ones, [draw, row] float64.
at::Tensor drawn_counts(std::mt19937_64& engine, std::int64_t draws, std::int64_t rows) {
  at::Tensor counts = at::zeros({draws, rows}, at::kDouble);
  double* of_draw = counts.mutable_data_ptr<double>();
  const auto n = static_cast<std::uint64_t>(rows);
  // Numbers above the largest multiple of n would favour the first rows.
  const std::uint64_t end = std::numeric_limits<std::uint64_t>::max() / n * n;
  for (std::int64_t draw = 0; draw < draws; ++draw, of_draw += rows) {
    for (std::int64_t i = 0; i < rows; ++i) {
      std::uint64_t number = engine();
      while (number >= end) number = engine();
      of_draw[number % n] += 1;
    }
  }
  return counts;
}

/// The resampled means of some cells, [draw, cell], sorted within each cell; NaN last.
at::Tensor sorted_means(const Rows& rows, const IntervalOptions& options) {
  std::mt19937_64 engine(options.seed);
  at::Tensor means = at::empty({options.resamples, rows.cells()}, at::kDouble);
  const std::int64_t step = std::max<std::int64_t>(1, kNumbersAtOnce / rows.rows());
  for (std::int64_t begin = 0; begin < options.resamples; begin += step) {
    const std::int64_t count = std::min(step, options.resamples - begin);
    means.narrow(0, begin, count).copy_(rows.means(drawn_counts(engine, count, rows.rows())));
  }
  return std::get<0>(means.sort(0));
}

/// The quantiles [cell] of sorted numbers [draw, cell] at these shares [cell], linear between neighbours;
/// `count` [cell] of them are numbers.
at::Tensor quantiles(const at::Tensor& sorted, const at::Tensor& shares, const at::Tensor& count) {
  const at::Tensor place = shares.nan_to_num(0.0) * (count - 1).clamp_min(0);
  const at::Tensor below = place.floor().to(at::kLong);
  const at::Tensor above = at::minimum(below + 1, (count - 1).clamp_min(0).to(at::kLong));
  const at::Tensor low = sorted.gather(0, below.unsqueeze(0)).squeeze(0),
                   high = sorted.gather(0, above.unsqueeze(0)).squeeze(0);
  const at::Tensor part = place - below;
  return at::where(part.eq(0), low, low * (1 - part) + high * part);
}

/// The shares of the means at which the interval ends, [cell] each.
std::pair<at::Tensor, at::Tensor> ending_shares(const Rows& rows, const at::Tensor& mean,
                                                const at::Tensor& sorted, const at::Tensor& count,
                                                const IntervalOptions& options) {
  const double tail = (1 - options.level) / 2;
  const at::Tensor low = at::full_like(mean, tail), high = at::full_like(mean, 1 - tail);
  if (options.method == IntervalMethod::percentile) return {low, high};
  // Efron 1987; what is equal to the mean counts by half, as in scipy.
  const at::Tensor under = (sorted.lt(mean).sum(0) + sorted.le(mean).sum(0)) / (2 * count);
  const at::Tensor bias = at::special_ndtri(under);
  // The mean without each of the rows, and how skewed these are.
  const at::Tensor n = rows.there.sum(0, /*keepdim=*/true);
  const at::Tensor without = ((rows.numbers.sum(0, true) - rows.numbers) / (n - 1));
  const at::Tensor centre = (without * rows.there).sum(0, true) / n;
  const at::Tensor away = (centre - without) * rows.there;
  const at::Tensor skew = (away.pow(3).sum(0) / (6 * away.square().sum(0).pow(1.5))).nan_to_num(0.0);
  const auto corrected = [&](const at::Tensor& share) {
    const at::Tensor z = bias + at::special_ndtri(share);
    return at::special_ndtr(bias + z / (1 - skew * z));
  };
  return {corrected(low), corrected(high)};
}

/// Signs of each row, [draw, row] float64: all choices if there are not more than `most`.
struct Signs {
  Signs(std::int64_t rows, const PermutationOptions& options) : rows_(rows), engine_(options.seed) {
    exact = rows < 62 && (std::int64_t{1} << rows) <= options.resamples;
    draws = exact ? std::int64_t{1} << rows : options.resamples;
  }
  at::Tensor next(std::int64_t first, std::int64_t count) {
    at::Tensor signs = at::empty({count, rows_}, at::kDouble);
    double* sign = signs.mutable_data_ptr<double>();
    for (std::int64_t draw = 0; draw < count; ++draw) {
      std::uint64_t bits = 0;
      for (std::int64_t row = 0; row < rows_; ++row) {
        if (row % 64 == 0) bits = exact ? static_cast<std::uint64_t>(first + draw) : engine_();
        *sign++ = (bits & 1) != 0 ? -1.0 : 1.0;
        bits >>= 1;
      }
    }
    return signs;
  }

  bool exact;
  std::int64_t draws;

 private:
  std::int64_t rows_;
  std::mt19937_64 engine_;
};

}  // namespace

Grid mean_interval(const Grid& grid, const IntervalOptions& options) {
  constexpr const char* kWhere = "mean_interval";
  require_level(kWhere, options.level);
  require_resamples(kWhere, options.resamples);
  const Grid mean = grid.mean(options.axis);
  const Rows rows(grid, options.axis);
  if (rows.rows() < 2) {
    throw ShapeError(kWhere, fmt::format("axis {} of '{}' has {} places; expected 2 or more: one row says "
                                         "nothing of how rows differ",
                                         options.axis, grid.title(), rows.rows()));
  }
  const at::Tensor middle = mean.values().flatten();
  const at::Tensor sorted = sorted_means(rows, options);
  const at::Tensor count = sorted.isnan().logical_not().sum(0).to(at::kDouble);
  const auto [low, high] = ending_shares(rows, middle, sorted, count, options);
  const at::Tensor enough = rows.there.sum(0).ge(2);
  const auto end = [&](const at::Tensor& share) {
    const at::Tensor found = quantiles(sorted, share, count);
    return at::where(enough.logical_and(share.isnan().logical_not()), found, at::full_like(found, kNan))
        .view(mean.values().sizes());
  };
  return mean.with_interval({end(low), end(high),
                             fmt::format("{:g} % bootstrap over {} {}s ({}, {} resamples, seed {})",
                                         options.level * 100, rows.rows(), options.axis,
                                         options.method == IntervalMethod::percentile ? "percentile" : "BCa",
                                         options.resamples, options.seed)});
}

DifferenceTest difference_test(const Grid& left, const Grid& right, const PermutationOptions& options) {
  require_resamples("difference_test", options.resamples);
  const Grid difference = left - right;
  const Grid mean = difference.mean(options.axis);
  const Rows rows(difference, options.axis);
  const at::Tensor size = rows.numbers.sum(0).abs();
  // Sums of the same numbers in another order differ by rounding, and count as equal.
  const at::Tensor least = size - 1e-12 * rows.numbers.abs().sum(0);
  Signs signs(rows.rows(), options);
  at::Tensor as_far = at::zeros_like(size);
  const std::int64_t step = std::max<std::int64_t>(
      1, kNumbersAtOnce / std::max<std::int64_t>(1, std::max(rows.rows(), rows.cells())));
  for (std::int64_t first = 0; first < signs.draws; first += step) {
    const auto count = std::min(step, signs.draws - first);
    as_far += signs.next(first, count).matmul(rows.numbers).abs().ge(least).sum(0);
  }
  const double own = signs.exact ? 0 : 1;
  const at::Tensor shares = (as_far + own) / (static_cast<double>(signs.draws) + own);
  const at::Tensor p = at::where(rows.there.sum(0).gt(0), shares, at::full_like(shares, kNan));
  return {mean,
          Grid(p.view(mean.values().sizes()), mean.axes(),
               {.title = fmt::format("{}: paired permutation test", mean.title()), .unit = "probability"}),
          signs.exact, signs.draws};
}

Grid share_interval(const Grid& hits, const Grid& trials, double level) {
  require_level("share_interval", level);
  if (hits.axes() != trials.axes()) {
    throw ShapeError("share_interval", fmt::format("'{}' and '{}' have other axes; expected the same ones",
                                                   hits.title(), trials.title()));
  }
  const double z = at::special_ndtri(at::tensor((1 + level) / 2, at::kDouble)).item<double>();
  const at::Tensor n = trials.values(), share = hits.values() / n;
  const at::Tensor some = n.gt(0), base = 1 + z * z / n;
  const at::Tensor centre = (share + z * z / (2 * n)) / base;
  const at::Tensor half = z / base * (share * (1 - share) / n + z * z / (4 * n * n)).sqrt();
  const auto within = [&](const at::Tensor& end, double without) {
    return at::where(some, end.clamp(0, 1), at::full_like(end, without));
  };
  return Grid(share, hits.axes(), {.title = hits.title(), .unit = "share"})
      .with_interval({within(centre - half, 0), within(centre + half, 1),
                      fmt::format("{:g} % Wilson score interval", level * 100)});
}

}  // namespace hooked
