#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "loading/storage/code_matrix.h"
#include "loading/storage/stored_parts.h"

namespace hooked {

/// Numbers in groups of `row_step` x `column_step` that share a factor and a zero point.
struct ScaledIntegers {
  CodeMatrix codes;
  NamedTensor factors;
  std::int64_t factor_columns;  ///< of the matrix of factors
  std::int64_t row_step, column_step;
  std::optional<CodeMatrix> zeros = std::nullopt;  ///< a matrix like the factors'
  std::int32_t zero = 0;                           ///< if there are none
  // The row or column of factors for each row or column of numbers, if groups are not neighbours.
  std::optional<NamedTensor> row_groups = std::nullopt, column_groups = std::nullopt;
  float times = 1.0F;  ///< a second factor for all
};

/// The needed rows of factors and of zero points.
struct FactorRows {
  std::vector<std::int64_t> rows;  ///< which ones, in order
  std::vector<float> factors;
  std::vector<std::int32_t> zeros;

  std::size_t index_of(std::int64_t row) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(rows, row) - rows.begin());
  }
};

/// The groups of `count` rows or columns from `first` on, if groups are neighbours.
std::vector<std::int64_t> neighbours(std::int64_t first, std::int64_t count, std::int64_t step);

/// Whether groups are neighbours. Groups that do not exist are not: reading the numbers refuses them.
bool in_order(const ScaledIntegers& weight);

/// The groups of rows `first` to `first + count`. Throws CheckpointError for one that does not exist.
std::vector<std::int64_t> row_groups_of(const ScaledIntegers& weight, std::int64_t first, std::int64_t count);

/// The needed rows of factors, each once.
FactorRows read_factor_rows(const ScaledIntegers& weight, std::vector<std::int64_t> rows);

/// Fills a tensor of float32 with the numbers from number `first` on.
void read_numbers(const ScaledIntegers& weight, std::int64_t first, const at::Tensor& into);

/// The weight's codes, whose numbers are stored as [in, out] (`lies_in_out`) or as [out, in], for a weight
/// that the model wants as [in, out] (`turned`) or [out, in]. Nothing if products cannot decode them.
std::optional<SourceCodes> codes_of(ScaledIntegers weight, bool lies_in_out, bool turned);

}  // namespace hooked
