#pragma once

#include <cstdint>

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

/// Cap, bias, mask and softmax of each row, in place, in the memory of one row at a time. Rows that see
/// nothing become 0.
void attend_rows(const AttentionRows& rows);

}  // namespace hooked::kernels
