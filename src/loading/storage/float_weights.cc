#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "hooked/core/tensor_text.h"
#include "io/files/number_codes.h"
#include "loading/storage/stored_parts.h"

namespace hooked {
namespace {

using Shape = std::vector<std::int64_t>;

// Note [MXFP4]
// A byte of `blocks` [..., group, 16] has two numbers, the first in its lower half; a byte of `scales` [...,
// group] is the power of two for 32 of them. They are rows of a matrix [out, in] for each expert. The weight
// is the transpose, [expert, in, out], as gpt-oss stores it in numbers, but its memory has the order of the
// rows.

constexpr std::int64_t kGroup = 32;
constexpr std::int64_t kGroupBytes = kGroup / 2;

void write_group(const std::byte* bytes, float factor, float* into) {
  std::array<float, 16> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = kE2m1Numbers[i] * factor;
  for (std::int64_t i = 0; i < kGroupBytes; ++i) {
    const auto pair = std::to_integer<unsigned>(bytes[i]);
    into[2 * i] = numbers[pair & 15U];
    into[2 * i + 1] = numbers[pair >> 4U];
  }
}

// Its groups are blocks.
CodedForm mxfp4_form() {
  CodedForm form{.values = CodeValues::table, .factors = CodeFactors::bfloat16};
  std::ranges::copy(kE2m1Numbers, form.table);
  return form;
}

void read_mxfp4_codes(const StoredParts& parts, std::int64_t first, std::span<CodedBlock> into) {
  const auto count = static_cast<std::int64_t>(into.size());
  const std::vector<std::byte> blocks =
      part_bytes(parts.numbers.tensor, first * kGroupBytes, count * kGroupBytes);
  const std::vector<std::byte> scales = part_bytes(parts.factors.tensor, first, count);
  for (std::size_t g = 0; g < into.size(); ++g) {
    into[g].factor = e8m0_numbers()[std::to_integer<std::size_t>(scales[g])];
    for (std::size_t i = 0; i < kGroupBytes; ++i) {
      const auto pair = std::to_integer<std::uint8_t>(blocks[g * kGroupBytes + i]);
      into[g].codes[2 * i] = pair & 15U;
      into[g].codes[2 * i + 1] = pair >> 4U;
    }
  }
}

void read_mxfp4(const StoredParts& parts, std::int64_t first, const at::Tensor& into) {
  const std::int64_t end = first + into.numel();
  if (first == end) return;
  const std::int64_t first_group = first / kGroup, groups = (end + kGroup - 1) / kGroup - first_group;
  const std::vector<std::byte> blocks =
      part_bytes(parts.numbers.tensor, first_group * kGroupBytes, groups * kGroupBytes);
  const std::vector<std::byte> scales = part_bytes(parts.factors.tensor, first_group, groups);
  auto* const out = static_cast<float*>(into.data_ptr());
  std::array<float, kGroup> group{};
  for (std::int64_t g = 0; g < groups; ++g) {
    const float factor = e8m0_numbers()[std::to_integer<std::size_t>(scales[static_cast<std::size_t>(g)])];
    const std::byte* bytes = blocks.data() + g * kGroupBytes;
    const std::int64_t begin = (first_group + g) * kGroup;  // position of the group's first number among all
    if (begin >= first && begin + kGroup <= end) {
      write_group(bytes, factor, out + (begin - first));
      continue;
    }
    write_group(bytes, factor, group.data());
    const std::int64_t from = std::max(begin, first), to = std::min(begin + kGroup, end);
    std::copy(group.begin() + (from - begin), group.begin() + (to - begin), out + (from - first));
  }
}

// Note [fp8]
// Numbers [..., row, column] in e4m3; a factor for all of them, for each row, or for each block of rows and
// columns. The last blocks may be smaller. The product is rounded to float32.

/// The layout of factors: each block of `rows` x `columns` numbers shares one.
struct FactorGrid {
  std::int64_t matrix_rows, matrix_columns;  ///< of a matrix; there may be several in sequence
  std::int64_t rows, columns;                ///< of a block
  std::int64_t grid_rows() const { return (matrix_rows + rows - 1) / rows; }
  std::int64_t grid_columns() const { return (matrix_columns + columns - 1) / columns; }
  /// The row of factors for a row of numbers, both counted over all matrices.
  std::int64_t grid_row(std::int64_t row) const {
    return row / matrix_rows * grid_rows() + row % matrix_rows / rows;
  }
};

bool is_one(const Shape& shape) { return number_count(shape) == 1; }

// The grid that the factors' shape and config.json agree on.
std::optional<FactorGrid> grid_of(const Shape& numbers, const Shape& factors,
                                  const QuantisedStorage& storage) {
  const std::int64_t rows = numbers[numbers.size() - 2], columns = numbers.back();
  if (storage.by_tensor && is_one(factors)) {
    const std::int64_t all = number_count(numbers) / std::max<std::int64_t>(1, columns);
    return FactorGrid{all, columns, std::max<std::int64_t>(1, all), std::max<std::int64_t>(1, columns)};
  }
  const auto fits = [&](const FactorGrid& grid, bool one_axis) {
    Shape wanted = numbers;
    wanted[numbers.size() - 2] = grid.grid_rows();
    wanted.back() = grid.grid_columns();
    if (factors == wanted) return true;
    wanted.pop_back();
    return one_axis && factors == wanted;
  };
  if (storage.by_row) {
    const FactorGrid grid{rows, columns, 1, std::max<std::int64_t>(1, columns)};
    if (fits(grid, true)) return grid;
  }
  if (storage.block) {
    const FactorGrid grid{rows, columns, storage.block->at(0), storage.block->at(1)};
    if (fits(grid, false)) return grid;
  }
  return std::nullopt;
}

std::string wanted_factors(const Shape& numbers, const QuantisedStorage& storage) {
  std::vector<std::string> kinds;
  if (storage.by_tensor) kinds.emplace_back("one for all");
  if (storage.by_row) kinds.emplace_back("one for each row");
  if (storage.block)
    kinds.push_back(fmt::format("one for each block of {} x {}", storage.block->at(0), storage.block->at(1)));
  return fmt::format("{} of {}", fmt::join(kinds, " or "), shape_text(numbers));
}

void read_fp8(const StoredParts& parts, const FactorGrid& grid, std::int64_t first, const at::Tensor& into) {
  const std::int64_t count = into.numel();
  if (count == 0) return;
  const std::int64_t width = grid.matrix_columns, blocks = grid.grid_columns();
  const std::vector<std::byte> bytes = part_bytes(parts.numbers.tensor, first, count);
  const std::int64_t first_factors = grid.grid_row(first / width);
  const std::int64_t last_factors = grid.grid_row((first + count - 1) / width);
  const std::vector<float> factors =
      part_factors(parts.factors.tensor, first_factors * blocks, (last_factors - first_factors + 1) * blocks);
  auto* const out = static_cast<float*>(into.data_ptr());
  const ByteNumbers& numbers = e4m3_numbers();
  for (std::int64_t at = 0; at < count;) {  // a stretch of one row in one block at a time
    const std::int64_t row = (first + at) / width, column = (first + at) % width,
                       block = column / grid.columns;
    const std::int64_t end = std::min({count, at + width - column, at + (block + 1) * grid.columns - column});
    const float factor =
        factors[static_cast<std::size_t>((grid.grid_row(row) - first_factors) * blocks + block)];
    for (; at < end; ++at) {
      out[at] = numbers[std::to_integer<std::size_t>(bytes[static_cast<std::size_t>(at)])] * factor;
    }
  }
}

// How products decode the numbers; nothing if rows or factors have no whole blocks.
std::optional<CodedForm> fp8_form(const StoredParts& parts, const FactorGrid& grid, bool rounds) {
  const at::ScalarType dtype = parts.factors.tensor.dtype;
  const int block = block_size(std::gcd(grid.matrix_columns, std::min(grid.matrix_columns, grid.columns)));
  if (block == 0) return std::nullopt;
  return CodedForm{.bits = 8,
                   .values = CodeValues::e4m3,
                   .group = block,
                   .block = block,
                   .factors = code_factors(dtype),
                   .rounding = rounds ? code_rounding(dtype) : CodeRounding::none};
}

void read_fp8_codes(const StoredParts& parts, const FactorGrid& grid, int block, std::int64_t first,
                    std::span<CodedBlock> into) {
  const std::int64_t width = grid.matrix_columns, of_row = grid.grid_columns(), begin = first * block;
  const std::vector<std::byte> bytes =
      part_bytes(parts.numbers.tensor, begin, static_cast<std::int64_t>(into.size()) * block);
  std::int64_t row = -1;
  std::vector<float> factors;
  for (std::size_t b = 0; b < into.size(); ++b) {
    const std::int64_t at = begin + static_cast<std::int64_t>(b) * block;
    if (at / width != row) {
      row = at / width;
      factors = part_factors(parts.factors.tensor, grid.grid_row(row) * of_row, of_row);
    }
    into[b].factor = factors[static_cast<std::size_t>(at % width / grid.columns)];
    for (int i = 0; i < block; ++i) {
      into[b].codes[static_cast<std::size_t>(i)] =
          std::to_integer<std::uint8_t>(bytes[static_cast<std::size_t>(at - begin + i)]);
    }
  }
}

}  // namespace

SourceTensor mxfp4_weight(StoredParts parts, const QuantisedStorage&) {
  const Shape blocks = parts.numbers.tensor.shape;
  if (blocks.size() != 4 || blocks.back() != kGroupBytes) {
    refuse_part(
        parts.numbers,
        fmt::format("is not a tensor of MXFP4 blocks; expected the shape [expert, row, group, {}], got {}",
                    kGroupBytes, shape_text(blocks)));
  }
  require_part(parts.factors, parts.numbers, "one exponent for each group", "U8",
               Shape(blocks.begin(), blocks.end() - 1));
  const std::int64_t rows = blocks[1], columns = blocks[2] * kGroup;
  SourceTensor weight =
      made_weight(parts.numbers, "MXFP4", {blocks[0], columns, rows}, {rows * columns, 1, columns},
                  [parts](std::int64_t first, const at::Tensor& into) { read_mxfp4(parts, first, into); });
  weight.codes =
      SourceCodes{mxfp4_form(), [parts = std::move(parts)](std::int64_t first, std::span<CodedBlock> into) {
                    read_mxfp4_codes(parts, first, into);
                  }};
  return weight;
}

SourceTensor fp8_weight(StoredParts parts, const QuantisedStorage& storage) {
  const Shape numbers = parts.numbers.tensor.shape;
  if (numbers.size() < 2) {
    refuse_part(parts.numbers,
                fmt::format("is stored in fp8; expected that of matrices alone, got the shape {}",
                            shape_text(numbers)));
  }
  const auto grid = grid_of(numbers, parts.factors.tensor.shape, storage);
  if (!grid || !can_be_factors(parts.factors.tensor)) {
    refuse_part(parts.factors,
                fmt::format("does not fit '{}'; expected factors, {} (see {}), got {} {}", parts.numbers.name,
                            wanted_factors(numbers, storage), storage.where, parts.factors.tensor.dtype_name,
                            shape_text(parts.factors.tensor.shape)));
  }
  const bool rounds = storage.rounds_to_factors;
  SourceTensor weight =
      made_weight(parts.numbers, parts.numbers.tensor.dtype_name, numbers, {},
                  [parts, grid = *grid, rounds](std::int64_t first, const at::Tensor& into) {
                    read_fp8(parts, grid, first, into);
                    if (rounds) round_to_dtype(parts.factors.tensor.dtype, into);
                  });
  if (const auto form = fp8_form(parts, *grid, rounds)) {
    weight.codes = SourceCodes{*form, [parts = std::move(parts), grid = *grid, block = form->block](
                                          std::int64_t first, std::span<CodedBlock> into) {
                                 read_fp8_codes(parts, grid, block, first, into);
                               }};
  }
  return weight;
}

}  // namespace hooked
