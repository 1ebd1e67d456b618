#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "hooked/hooks/site.h"

namespace hooked {

/// Rows of one run that begin at different columns and end at the same one.
///
/// The graph computes only existing tokens, as one row: first those of the rows with the smallest
/// first column, row by row, then those of the next group. Hooks, edits and captures see rows and
/// columns.
class RaggedRows {
 public:
  /// Rows with the same first column, whose tokens are adjacent.
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
  /// Whether a site's activations have rows and positions, and can be shown for such rows.
  static bool can_show(Site site);
  /// Which columns belong to each row, counted from the smallest first column: [row, column] bool on the
  /// first device.
  at::Tensor own() const;

  /// Existing tokens of `x` [row, column, ...], columns from the smallest first column on: [1, token, ...].
  at::Tensor tokens_of(const at::Tensor& x) const;
  /// The reverse; NaN (0 in integers) where a row has no token.
  at::Tensor rows_of(const at::Tensor& tokens) const;

  /// One group's part of `tokens` [1, token, ...], as a view: [row, column, ...].
  static at::Tensor part(const at::Tensor& tokens, const Group& group);
  /// Unpacks grouped tokens [1, token, ...], the same number in every row, into [row, column, ...].
  at::Tensor rows_of_equal(const at::Tensor& tokens) const;

 private:
  /// Index tensors on one device.
  struct Numbers {
    at::Tensor places;  ///< of each token among rows and columns, [token] int64
    at::Tensor order;   ///< each row's index among the grouped rows, [row] int64
  };
  const Numbers& beside(const at::Tensor& x) const;

  std::int64_t rows_;
  std::int64_t columns_;  // from the smallest first column to the end
  std::vector<Group> groups_;
  std::vector<Numbers> numbers_;  // one for each device
};

}  // namespace hooked
