#pragma once

#include <cstdint>

/// Arguments and results of loops over rows. Nothing here may be a function (Note [Kernel sets],
/// models/kernels/kernels.cc).
namespace hooked::kernels {

/// Scores of one head: some queries and neighbouring keys. Columns are counted over all keys; pointers
/// indexed by column point to column 0, even if the rows begin at another.
struct AttentionRows {
  float* scores;        ///< products of queries and keys, [row, key]; becomes the pattern
  std::int64_t stride;  ///< numbers from row to row
  std::int64_t rows;
  std::int64_t first_key, end_key;  ///< the columns that are here
  const std::int64_t* first;        ///< by row: the first column that its query sees; null: all
  const std::int64_t* end;          ///< and one past the last; null with `first`
  const bool* real;                 ///< by column: whether the token is real; null: all are
  const float* bias;                ///< null: nothing is added to scores
  const std::int64_t* bias_starts;  ///< by row: its bias for column k is bias[start + k]
  float soft_cap;                   ///< 0 is off
  const float* sink;                ///< a logit in the sum that has no column; null: none
  float* kept_scores;               ///< [row, column], all columns: the finished scores; null: not kept
  float* kept_pattern;              ///< the same for the pattern
  std::int64_t columns;             ///< of the kept scores and pattern
};

/// How rows are normed; see norm_rows_into.
struct NormRow {
  std::int64_t size;  ///< numbers in a row
  float eps;
  bool centred;         ///< LayerNorm: subtract the row's mean
  float weight_offset;  ///< a stored weight w means this + w
};

/// One row. Null: not wanted. `normalized` may be the weighted row if the norm has no weight. Brain floats
/// are given by their bits.
template <class Number>
struct NormedRow {
  const Number* in;
  const Number* weight;
  const Number* bias;
  Number* weighted;
  Number* normalized;
  float* scale;  ///< one number
};

/// One row's backward pass. Null: there is none.
template <class Number>
struct NormRowBack {
  const Number* in;
  const Number* weight;
  const Number* gradient;  ///< of the weighted row
  Number* out;             ///< the gradient of `in`
};

/// Which numbers of a row are rotated; see rotate.
struct RotaryRow {
  std::int64_t size;    ///< numbers in a row
  std::int64_t half;    ///< pairs that are rotated
  bool at_end;          ///< the last 2 half numbers are rotated, else the first
  bool adjacent_pairs;  ///< neighbours are a pair, else number i and number half + i
};

/// The likeliest token in a row of logits, and the sum for all probabilities.
struct RowPeak {
  float largest;       ///< NaN is skipped
  std::int64_t place;  ///< its first place
  double sum;          ///< of exp(number - largest) over the row; NaN where the row has one, or +infinity
};

}  // namespace hooked::kernels
