#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The tokens that count as an answer: one or a set of them, the same for every row or each row's own.
class Answers {
 public:
  /// One token, in every row.
  Answers(std::int64_t token) : sets_{{token}} {}  // NOLINT: an id is an answer
  /// The same.
  Answers(int token) : sets_{{std::int64_t{token}}} {}  // NOLINT
  /// Any of these, in every row. Throws ShapeError when there is none.
  static Answers any_of(std::vector<std::int64_t> tokens);
  /// Each row's own token. Throws ShapeError when there is none.
  static Answers by_row(const std::vector<std::int64_t>& tokens);
  /// Each row's own set. Throws ShapeError when there is no row, or a row without a token.
  static Answers sets_by_row(std::vector<std::vector<std::int64_t>> sets);

  /// How many rows have tokens of their own; 0 where all have the same.
  std::int64_t rows() const { return by_row_ ? static_cast<std::int64_t>(sets_.size()) : 0; }
  /// The tokens of a row.
  const std::vector<std::int64_t>& of_row(std::int64_t row) const {
    return sets_[by_row_ ? static_cast<std::size_t>(row) : 0];
  }
  /// The answers of these rows alone, in this order. Throws ShapeError out of range.
  Answers of_rows(const std::vector<std::int64_t>& rows) const;

  /// Throws ShapeError, naming `where`, for an id outside a vocabulary of so many tokens and for another
  /// number of rows.
  void require_fit(std::int64_t rows, std::int64_t vocab, std::string_view where) const;

  bool operator==(const Answers&) const = default;

 private:
  explicit Answers(std::vector<std::vector<std::int64_t>> sets, bool by_row);

  std::vector<std::vector<std::int64_t>> sets_;
  bool by_row_ = false;
};

}  // namespace hooked
