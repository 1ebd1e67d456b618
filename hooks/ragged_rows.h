#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "hooked/hooks/site.h"

namespace hooked {

/// Rows of one run that begin at columns of their own and end at the same one.
///
/// The graph computes only the tokens that are there, as one row of them: those of the rows with the first of
/// the first columns, row by row, then those of the next. Who watches an activation is shown rows and
/// columns.
class RaggedRows {
 public:
  /// Rows with one first column, whose tokens lie side by side.
  struct Group {
    std::int64_t first_column;
    std::int64_t rows;
    std::int64_t columns;      ///< tokens of each row
    std::int64_t first_token;  ///< of the group's first row
  };

  /// Rows that begin at these columns, at least one each, and end before column `end`.
  /// They are computed on these devices.
  RaggedRows(const std::vector<std::int64_t>& first_columns, std::int64_t end,
             const std::vector<c10::Device>& devices);

  const std::vector<Group>& groups() const noexcept { return groups_; }
  /// Rows, and columns from the smallest first column to the end.
  std::array<std::int64_t, 2> sizes() const noexcept { return {rows_, columns_}; }
  /// Whether a site's activations have rows and positions, and can be shown of such rows.
  static bool can_show(Site site);
  /// Which columns of each row, from the smallest first column on, are its own: [row, column] bool on the
  /// first device.
  at::Tensor own() const;

  /// What is there of `x` [row, column, ...], columns from the smallest first column on: [1, token, ...].
  at::Tensor tokens_of(const at::Tensor& x) const;
  /// The reverse; NaN (0 in integers) stands where a row has no token.
  at::Tensor rows_of(const at::Tensor& tokens) const;

  /// One group's part of `tokens` [1, token, ...], as a view: [row, column, ...].
  static at::Tensor part(const at::Tensor& tokens, const Group& group);
  /// Equally many tokens of every row, group by group in [1, token, ...], as [row, column, ...].
  at::Tensor rows_of_equal(const at::Tensor& tokens) const;

 private:
  /// Numbers as one device reads them.
  struct Numbers {
    at::Tensor places;  ///< of each token among rows and columns, [token] int64
    at::Tensor order;   ///< where each row stands among the grouped ones, [row] int64
  };
  const Numbers& beside(const at::Tensor& x) const;

  std::int64_t rows_;
  std::int64_t columns_;  // from the smallest first column to the end
  std::vector<Group> groups_;
  std::vector<Numbers> numbers_;  // one for each device
};

}  // namespace hooked
