#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/address.h"

namespace HOOKED_EXPORT hooked {

/// The place of one token in each row of a batch: a column that all rows share, each row's last token, or a
/// named place that has its own column in each row ("the second name"). Padding is never such a place.
///
///     logit_lens(model, cache, {.positions = {3, -1, Position::last(), pairs.clean_place("subject")}})
class Position {
 public:
  /// A column of the tokens. Negative numbers count from the last column. If rows are padded on the right,
  /// that is not each row's last token; last() is.
  Position(std::int64_t column) : place_(column) {}  // NOLINT: 3 is a position
  /// The same.
  Position(int column) : place_(std::int64_t{column}) {}  // NOLINT
  /// Each row's last real token.
  Position(AxisIndex::Last) : place_(AxisIndex::Last{}) {}  // NOLINT
  /// The same.
  static Position last() { return AxisIndex::Last{}; }
  /// A named place: the column of each row, from 0 on. Throws ShapeError for a negative column and if there
  /// is none.
  Position(std::string name, std::vector<std::int64_t> columns);

  /// `3`, `-1`, `last`, or the place's name.
  std::string label() const;

  /// The absolute column in each of `rows` rows, [row]. Throws ShapeError naming the row in which it is
  /// outside the tokens or padding, and for a named place with another number of rows.
  std::vector<std::int64_t> columns(std::int64_t rows, const TokenColumns& tokens) const;
  /// The column in one of the rows; what the others have there does not matter. Throws as columns().
  std::int64_t column_in(std::int64_t row, std::int64_t rows, const TokenColumns& tokens) const;

  /// The place in only these rows, in this order: for a named place their columns, else the same. Throws
  /// ShapeError out of range.
  Position of_rows(const std::vector<std::int64_t>& rows) const;

  /// The column that was given, or nothing for last() and for a named place.
  std::optional<std::int64_t> column() const;
  /// The column of each row for a named place; empty for the others.
  std::vector<std::int64_t> named_columns() const;
  /// Whether it is each row's last token.
  bool is_last() const { return std::holds_alternative<AxisIndex::Last>(place_); }

  bool operator==(const Position&) const = default;

 private:
  struct Named {
    std::string name;
    std::vector<std::int64_t> columns;
    bool operator==(const Named&) const = default;
  };
  std::variant<std::int64_t, AxisIndex::Last, Named> place_;
};

}  // namespace hooked
