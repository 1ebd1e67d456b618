#pragma once

#include <cstdint>
#include <string>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// How the ends of a bootstrap interval follow from the resampled means.
enum class IntervalMethod : std::uint8_t {
  percentile,  ///< the quantiles of the means
  bca,         ///< bias-corrected and accelerated: better for few rows and skewed numbers (Efron 1987)
};

/// A mean and its interval. For designated initialisers.
struct IntervalOptions {
  double level = 0.95;                                 ///< share of the means that the interval holds
  IntervalMethod method = IntervalMethod::percentile;  ///< how its ends are found
  std::int64_t resamples = 10000;                      ///< rows are drawn so many times
  std::uint64_t seed = 0;                              ///< the same seed draws the same rows
  std::string axis = "row";                            ///< whose places are resampled
};

/// grid.mean("row") with a bootstrap interval (Grid::interval): the means of as many rows, drawn from the
/// grid's with replacement. All cells see the same draws. A row that is NaN in a cell does not count there;
/// the interval of a cell with fewer than two rows is NaN. Throws ShapeError for a missing axis and for one
/// of a single place, ConfigError for a level outside (0, 1) and without resamples.
Grid mean_interval(const Grid& grid, const IntervalOptions& options = {});

/// What a difference is tested with. For designated initialisers.
struct PermutationOptions {
  /// Signs are drawn so many times. If there are not more ways to choose them (2 to the number of rows), each
  /// is taken once, and the probabilities are exact.
  std::int64_t resamples = 10000;
  std::uint64_t seed = 0;    ///< the same seed draws the same signs
  std::string axis = "row";  ///< whose places are pairs
};

/// The mean difference of two grids, and how probable one of this size is if they do not differ.
struct DifferenceTest {
  Grid difference;     ///< (left - right).mean("row")
  Grid p;              ///< two-sided probabilities, uncorrected for the number of cells
  bool exact;          ///< every choice of signs was taken
  std::int64_t draws;  ///< choices of signs that were taken
};

/// A paired permutation test: if both grids score the rows alike, the difference of each row is as probable
/// with the other sign. `p` is the share of choices of signs whose mean is at least as far from 0 as the mean
/// of the grids; drawn ones count the grids' own signs, too: (1 + k) / (1 + draws). NaN for a cell without
/// rows; a row that is NaN in a cell does not count there. `right` may lack axes, as in a difference of
/// grids. (Fisher 1935.) Throws what left - right throws, ShapeError for a missing axis, and ConfigError
/// without resamples.
DifferenceTest difference_test(const Grid& left, const Grid& right, const PermutationOptions& options = {});

/// The Wilson score interval of a share: `hits` of `trials`, both grids of the same axes; [0, 1] without
/// trials. The grid of shares with its interval. (Wilson 1927.) Throws ShapeError if the grids do not fit,
/// ConfigError for a level outside (0, 1).
Grid share_interval(const Grid& hits, const Grid& trials, double level = 0.95);

}  // namespace hooked
