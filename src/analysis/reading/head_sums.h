#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hooked/analysis/heads.h"

namespace hooked {

/// Numerators and denominators of a score of heads, in one run, or in several runs with different rows.
struct HeadSums {
  std::vector<ActivationName> layers;  ///< the patterns' full names
  at::Tensor above, below;             ///< [layer, row, head] float64; NaN for a layer that was not kept
  /// Whether several rows have the quotient of their sums; else the mean of their quotients.
  bool pools_rows;
  /// Whether any query has a matching key; also true if the score does not look for keys by `share`.
  bool any_key;
  Grid::Description description;

  /// The scores of all heads. Throws ShapeError unless there is any key.
  Grid scores(HeadRows rows) const;
};

/// For each of these scores, all in one pass over the patterns. Scores that do not look for a pattern ignore
/// the measure. Throws what head_scores() throws.
std::vector<HeadSums> head_sums(const ActivationCache& cache, const std::vector<HeadScore>& scores,
                                const HeadScoreOptions& options);

}  // namespace hooked
