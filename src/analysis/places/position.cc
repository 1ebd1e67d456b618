#include "hooked/analysis/position.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "hooked/core/error.h"

namespace hooked {
namespace {

// A column of one row, checked.
std::int64_t checked_column(std::int64_t column, std::int64_t row, const TokenColumns& tokens,
                            const std::string& label) {
  const std::int64_t absolute = column < 0 ? column + tokens.end : column;
  if (absolute < tokens.first || absolute >= tokens.end) {
    throw ShapeError("position " + label,
                     fmt::format("column {} is outside the tokens of the run; expected {} to {}", column,
                                 tokens.first == 0 ? -tokens.end : tokens.first, tokens.end - 1));
  }
  if (!tokens.is_padding(row, absolute)) return absolute;
  const at::Tensor real = tokens.mask[row].nonzero().flatten() + tokens.first;
  throw ShapeError(
      "position " + label,
      fmt::format("column {} is padding in row {}; expected a real token, which are at positions {} to {}; "
                  "`last` is the last one of every row",
                  column, row, real[0].item<std::int64_t>(), real[-1].item<std::int64_t>()));
}

}  // namespace

Position::Position(std::string name, std::vector<std::int64_t> columns)
    : place_(Named{std::move(name), std::move(columns)}) {
  const auto& named = std::get<Named>(place_);
  if (named.columns.empty())
    throw ShapeError("position " + named.name, "a named place has a column per row; expected at least one");
  for (const auto column : named.columns) {
    if (column >= 0) continue;
    throw ShapeError("position " + named.name,
                     fmt::format("a named place counts columns from 0 on; got {}", column));
  }
}

std::string Position::label() const {
  if (const auto* named = std::get_if<Named>(&place_)) return named->name;
  return is_last() ? "last" : fmt::format("{}", std::get<std::int64_t>(place_));
}

std::optional<std::int64_t> Position::column() const {
  const auto* column = std::get_if<std::int64_t>(&place_);
  return column != nullptr ? std::optional(*column) : std::nullopt;
}

std::vector<std::int64_t> Position::named_columns() const {
  const auto* named = std::get_if<Named>(&place_);
  return named != nullptr ? named->columns : std::vector<std::int64_t>();
}

std::vector<std::int64_t> Position::columns(std::int64_t rows, const TokenColumns& tokens) const {
  std::vector<std::int64_t> columns;
  for (std::int64_t row = 0; row < rows; ++row) columns.push_back(column_in(row, rows, tokens));
  return columns;
}

std::int64_t Position::column_in(std::int64_t row, std::int64_t rows, const TokenColumns& tokens) const {
  if (is_last()) return tokens.last(rows)[row].item<std::int64_t>();
  const auto* named = std::get_if<Named>(&place_);
  if (named != nullptr && static_cast<std::int64_t>(named->columns.size()) != rows) {
    throw ShapeError(
        "position " + named->name,
        fmt::format("the place has columns for {} rows; expected one for each of the run's {} rows",
                    named->columns.size(), rows));
  }
  const auto column =
      named != nullptr ? named->columns[static_cast<std::size_t>(row)] : std::get<std::int64_t>(place_);
  return checked_column(column, row, tokens, label());
}

Position Position::of_rows(const std::vector<std::int64_t>& rows) const {
  const auto* named = std::get_if<Named>(&place_);
  if (named == nullptr) return *this;
  std::vector<std::int64_t> columns;
  for (const auto row : rows) {
    if (row < 0 || row >= static_cast<std::int64_t>(named->columns.size())) {
      throw ShapeError("position " + named->name, fmt::format("row {} is out of range; expected 0 to {}", row,
                                                              named->columns.size() - 1));
    }
    columns.push_back(named->columns[static_cast<std::size_t>(row)]);
  }
  return {named->name, std::move(columns)};
}

}  // namespace hooked
