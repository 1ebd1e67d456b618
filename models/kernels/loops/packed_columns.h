#pragma once

#include "models/kernels/loops/packed_panels.h"
#include "models/kernels/loops/packed_tiles.h"

// Sums of a block's columns with rows and columns exchanged.
namespace hooked::kernels {
namespace {

// Sums [rows, columns] that are to be written as [column, row].
struct ColumnSums {
  const float* sums;
  std::int64_t stride;     // from one row of sums to the next
  std::int64_t row, rows;  // the first one's place in the product, and how many
  std::int64_t column, columns;
};

// In squares of one row per vector lane; what follows the last row is read and left out.
template <class Elements>
void write_exchanged(const BlockProduct& p, const ColumnSums& part) {
  const auto* bias = static_cast<const typename Elements::Element*>(p.bias);
  for (std::int64_t first = 0; first < part.rows; first += kLanes) {
    const std::int64_t rows = part.rows - first < kLanes ? part.rows - first : kLanes, row = part.row + first;
    Floats added{};
    for (std::int64_t r = 0; bias != nullptr && r < rows; ++r) added[r] = Elements::number(bias[row + r]);
    for (std::int64_t column = 0; column < part.columns; column += kLanes) {
      Words square[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) square[r] = words_at(part.sums + (first + r) * part.stride + column);
      exchange<1, 1>(square);
      const std::int64_t left = part.columns - column;
      for (std::int64_t c = 0; c < (left < kLanes ? left : kLanes); ++c) {
        float* out = static_cast<float*>(p.out) + (part.column + column + c) * p.out_stride + row;
        const Floats sum = reinterpret_cast<Floats>(square[c]) + added;
        if (rows == kLanes) {
          store(out, sum);
        } else {
          for (std::int64_t r = 0; r < rows; ++r) out[r] = sum[r];
        }
      }
    }
  }
}

constexpr std::int64_t kRowsOfColumns = 48;  // full tiles, whatever a block's width

template <class Elements, int kSixteens>
void column_sums(const BlockProduct& p, std::int64_t columns) {
  constexpr std::int64_t kColumns = kPackedColumns * kSixteens;
  alignas(64) float sums[kRowsOfColumns * kColumns] = {};
  const std::int64_t chunks = parts_of(p.rows, kRowsOfColumns);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t row = chunk * kRowsOfColumns;
    const std::int64_t rows = p.rows - row < kRowsOfColumns ? p.rows - row : kRowsOfColumns;
    BlockProduct part = p;
    part.x = static_cast<const typename Elements::Element*>(p.x) + row * p.x_stride;
    part.bias = nullptr;
    part.out = sums;
    part.out_stride = kColumns;
    part.rows = rows;
    part.next_bytes = p.next_bytes / chunks;
    part.next = static_cast<const char*>(p.next) + chunk * part.next_bytes;
    block_product<Elements, kSixteens>(part);
    write_exchanged<Elements>(p, {sums, kColumns, row, rows, 0, columns});
  }
}

template <class Elements>
void columns_of_block(const BlockProduct& p, std::int64_t sixteens, std::int64_t columns) {
  using Sums = void (*)(const BlockProduct&, std::int64_t);
  static constexpr Sums kSums[kMostSixteens] = {column_sums<Elements, 1>, column_sums<Elements, 2>,
                                                column_sums<Elements, 3>, column_sums<Elements, 4>,
                                                column_sums<Elements, 5>, column_sums<Elements, 6>};
  kSums[sixteens - 1](p, columns);
}

// Products of bfloat16 using those elements.
template <class Elements>
void put_bfloat16(Kernels& kernels) {
  put_blocks<Elements>(kernels.bfloat16_blocks);
  kernels.bfloat16_dots = row_dots<Elements>;
  kernels.unrounded_dots = row_dots<Unrounded<Elements>>;
  kernels.unrounded_columns = columns_of_block<Unrounded<Elements>>;
}

}  // namespace
}  // namespace hooked::kernels
