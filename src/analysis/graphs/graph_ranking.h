#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hooked {

/// The influence of features on logits through the edges that are known so far (Ameisen et al. 2025): rows of
/// edges, each divided by the sum of its sizes, along all paths from the logits. Memory is that of its rows
/// times what is kept of each.
class GraphRanking {
 public:
  /// Of `features`; at most `rows` rows, of which the `kept` largest numbers are kept each. `weights` are
  /// those of the logits, whose rows are added first.
  GraphRanking(std::int64_t features, std::int64_t rows, std::int64_t kept, std::vector<double> weights);

  /// Adds the row [source] of the next logit, or of a feature.
  void add(const at::Tensor& edges, std::int64_t feature = -1);
  /// The influence of each feature, [feature] float32.
  at::Tensor influences() const;

 private:
  std::int64_t features_, kept_, rows_ = 0;
  std::vector<double> weights_;
  std::vector<std::int64_t> feature_of_row_;  // those of logits have none
  at::Tensor shares_;                         // [row, kept] float32
  at::Tensor indices_;                        // [row, kept] int32; undefined: all features are kept
};

}  // namespace hooked
