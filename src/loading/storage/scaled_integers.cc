#include "loading/storage/scaled_integers.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hooked {

std::vector<std::int64_t> neighbours(std::int64_t first, std::int64_t count, std::int64_t step) {
  std::vector<std::int64_t> groups(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) groups[static_cast<std::size_t>(i)] = (first + i) / step;
  return groups;
}

// Numbers `first` to `first + count` of an I32 tensor.
static std::vector<std::int64_t> stored_groups(const NamedTensor& stored, std::int64_t first,
                                               std::int64_t count) {
  std::vector<std::int64_t> groups;
  for (const std::uint32_t word : part_words(stored.tensor, first, count))
    groups.push_back(static_cast<std::int32_t>(word));
  return groups;
}

// Checks the groups of the numbers from `first` on, which `stored` gives.
static std::vector<std::int64_t> existing_groups(std::vector<std::int64_t> groups, const NamedTensor& stored,
                                                 std::int64_t first, std::int64_t n_groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] >= 0 && groups[i] < n_groups) continue;
    refuse_part(stored, fmt::format("names a group that does not exist at {}; expected 0 to {}, got {}",
                                    first + static_cast<std::int64_t>(i), n_groups - 1, groups[i]));
  }
  return groups;
}

std::vector<std::int64_t> row_groups_of(const ScaledIntegers& weight, std::int64_t first,
                                        std::int64_t count) {
  if (!weight.row_groups) return neighbours(first, count, weight.row_step);
  const NamedTensor& stored = *weight.row_groups;
  return existing_groups(stored_groups(stored, first, count), stored, first, weight.factors.tensor.shape[0]);
}

// The order of columns that is stored, unchecked; nothing if they are neighbours.
static std::optional<std::vector<std::int64_t>> stored_column_groups(const ScaledIntegers& weight) {
  if (!weight.column_groups) return std::nullopt;
  std::vector<std::int64_t> groups = stored_groups(*weight.column_groups, 0, weight.codes.columns);
  // compressed-tensors writes this if the order has not been set.
  if (std::ranges::all_of(groups, [](std::int64_t group) { return group == -1; })) return std::nullopt;
  return groups;
}

static std::vector<std::int64_t> column_groups_of(const ScaledIntegers& weight) {
  auto stored = stored_column_groups(weight);
  if (!stored) return neighbours(0, weight.codes.columns, weight.column_step);
  return existing_groups(*std::move(stored), *weight.column_groups, 0, weight.factor_columns);
}

bool in_order(const ScaledIntegers& weight) {
  const std::int64_t rows = weight.codes.rows;
  if (weight.row_groups && stored_groups(*weight.row_groups, 0, rows) != neighbours(0, rows, weight.row_step))
    return false;
  const auto columns = stored_column_groups(weight);
  return !columns || *columns == neighbours(0, weight.codes.columns, weight.column_step);
}

// The needed rows of factors, each once, read in runs of neighbours.
FactorRows read_factor_rows(const ScaledIntegers& weight, std::vector<std::int64_t> rows) {
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  FactorRows read;
  const std::int64_t width = weight.factor_columns;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    const std::int64_t first = rows[begin], count = static_cast<std::int64_t>(end - begin);
    const auto factors = part_factors(weight.factors.tensor, first * width, count * width);
    read.factors.insert(read.factors.end(), factors.begin(), factors.end());
    if (weight.zeros) {
      const auto zeros = weight.zeros->rows_of(first, count);
      read.zeros.insert(read.zeros.end(), zeros.begin(), zeros.end());
    }
    begin = end;
  }
  if (!weight.zeros) read.zeros.assign(read.factors.size(), weight.zero);
  read.rows = std::move(rows);
  return read;
}

void read_numbers(const ScaledIntegers& weight, std::int64_t first, const at::Tensor& into) {
  const std::int64_t count = into.numel(), width = weight.codes.columns;
  if (count == 0) return;
  const std::int64_t first_row = first / width, rows = (first + count - 1) / width + 1 - first_row;
  const std::vector<std::int64_t> row_groups = row_groups_of(weight, first_row, rows);
  const std::vector<std::int64_t> column_groups = column_groups_of(weight);
  const FactorRows factors = read_factor_rows(weight, row_groups);
  const std::vector<std::int32_t> codes = weight.codes.rows_of(first_row, rows);
  auto* const out = static_cast<float*>(into.data_ptr());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = (first_row + row) * width;  // position of the row's first number among all
    const std::int64_t from = std::max(begin, first), to = std::min(begin + width, first + count);
    const std::size_t at = factors.index_of(row_groups[static_cast<std::size_t>(row)]) *
                           static_cast<std::size_t>(weight.factor_columns);
    for (std::int64_t i = from; i < to; ++i) {
      const std::size_t group =
          at + static_cast<std::size_t>(column_groups[static_cast<std::size_t>(i - begin)]);
      const std::int32_t code = codes[static_cast<std::size_t>(i - first_row * width)] - factors.zeros[group];
      out[i - first] = static_cast<float>(code) * factors.factors[group];
    }
  }
  round_to_dtype(weight.factors.tensor.dtype, into);
  if (weight.times == 1.0F) return;
  std::transform(out, out + count, out, [&](float number) { return number * weight.times; });
}

}  // namespace hooked
