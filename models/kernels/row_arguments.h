#pragma once

#include <cstdint>

/// What loops over rows are given and give back. Nothing here may be a function (Note [Kernel sets],
/// models/kernels/kernels.cc).
namespace hooked::kernels {

/// Scores of one head: some queries against neighbouring keys. Columns are counted over all keys; pointers by
/// column point to column 0, even where the rows begin at another.
struct AttentionRows {
  float* scores;        ///< products of queries and keys, [row, key]; becomes the pattern
  std::int64_t stride;  ///< numbers from row to row
  std::int64_t rows;
  std::int64_t first_key, end_key;  ///< the columns that are here
  const std::int64_t* first;        ///< of each row: the first column that its query sees; null: all
  const std::int64_t* end;          ///< and the column after the last; null with `first`
  const bool* real;                 ///< by column: it is no padding; null: none is
  const float* bias;                ///< null: scores get nothing
  const std::int64_t* bias_starts;  ///< of each row: its bias for column k is bias[start + k]
  float soft_cap;                   ///< 0 is off
  const float* sink;                ///< a score that takes part in the sum and has no column; null: none
  float* kept_scores;               ///< [row, column], all columns: the finished scores; null: nobody's
  float* kept_pattern;              ///< the same of the pattern
  std::int64_t columns;             ///< of what is kept
};

/// How rows are normed; see norm_rows_into.
struct NormRow {
  std::int64_t size;  ///< numbers in a row
  float eps;
  bool centred;         ///< LayerNorm: less the row's mean
  float weight_offset;  ///< a stored weight w means this + w
};

/// One row. Null: nobody's. `normalized` may be the weighted row, where there is no weight. Brain floats are
/// given by their bits.
template <class Number>
struct NormedRow {
  const Number* in;
  const Number* weight;
  const Number* bias;
  Number* weighted;
  Number* normalized;
  float* scale;  ///< one number
};

/// One row's way back. Null: there is none.
template <class Number>
struct NormRowBack {
  const Number* in;
  const Number* weight;
  const Number* gradient;  ///< of the weighted row
  Number* out;             ///< the gradient of `in`
};

/// Which numbers of a row turn; see rotate.
struct RotaryRow {
  std::int64_t size;    ///< numbers in a row
  std::int64_t half;    ///< pairs that turn
  bool at_end;          ///< the last 2 half numbers turn, else the first
  bool adjacent_pairs;  ///< neighbours are a pair, else number i and number half + i
};

/// What a row of logits says of its likeliest token and of all probabilities.
struct RowPeak {
  float largest;       ///< NaN is passed over
  std::int64_t place;  ///< the first at which it stands
  double sum;          ///< of exp(number - largest) over the row; NaN where the row has one, or +infinity
};

}  // namespace hooked::kernels
