#pragma once

#include "models/kernels/loops/numbers.h"
#include "models/kernels/loops/packed_columns.h"

// Products by AMX (Intel, "Intel Architecture Instruction Set Extensions Programming Reference", chapter 3):
// a tile holds 16 rows of 64 bytes, and one instruction adds the product of 16 rows by 32 inputs and 32
// inputs by 16 columns to 16 x 16 sums in float32. Tiles of weights are read straight from blocks of pairs.
// The sums of a row are accumulated in the order of the inputs whatever other rows there are.
namespace hooked::kernels {
namespace {

constexpr std::int64_t kSide = 16;         // rows and columns of a tile of sums
constexpr std::int64_t kInputs = 32;       // of a tile of rows or of weights
constexpr std::int64_t kMostColumns = 64;  // columns whose sums are held at once

// The tiles: sums in 0 to 3, rows in 4 and 5, weights in 6 and 7.
constexpr int kSecondSums = 2, kSecondRows = 5, kTiles = 8;

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Sums of up to 16 rows by four tiles of columns, or of 17 to 32 rows by two.
void shape_tiles(std::int64_t rows) {
  TileShapes shapes;
  const auto first = static_cast<std::uint8_t>(smaller(rows, kSide));
  const auto second = static_cast<std::uint8_t>(rows > kSide ? rows - kSide : rows);
  for (int tile = 0; tile < kTiles; ++tile) {
    shapes.row_bytes[tile] = 2 * kInputs;
    const bool of_second = tile == kSecondSums || tile == kSecondSums + 1 || tile == kSecondRows;
    shapes.rows[tile] = tile > kSecondRows ? kSide : of_second ? second : first;
  }
  asm volatile("" ::: "memory");  // the intrinsic does not say that it reads all of them
  _tile_loadconfig(&shapes);
}

// What one step of sums reads: 32 inputs.
struct Step {
  const std::uint16_t* x;
  std::int64_t x_stride;
  const std::uint16_t* weights;  // [pair of inputs, column, 2]
  std::int64_t weights_stride;
};

// GCC's intrinsics take the number of a tile as a literal.
template <int kColumnTiles>
[[gnu::always_inline]] inline void add_few_rows(const Step& s) {
  const std::int64_t stride = 2 * s.weights_stride;
  _tile_loadd(4, s.x, 2 * s.x_stride);
  _tile_loadd(6, s.weights, stride);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kColumnTiles > 1) {
    _tile_loadd(7, s.weights + kInputs, stride);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (kColumnTiles > 2) {
    _tile_loadd(6, s.weights + 2 * kInputs, stride);
    _tile_dpbf16ps(2, 4, 6);
  }
  if constexpr (kColumnTiles > 3) {
    _tile_loadd(7, s.weights + 3 * kInputs, stride);
    _tile_dpbf16ps(3, 4, 7);
  }
}

template <int kColumnTiles>
[[gnu::always_inline]] inline void add_many_rows(const Step& s) {
  const std::int64_t stride = 2 * s.weights_stride;
  _tile_loadd(4, s.x, 2 * s.x_stride);
  _tile_loadd(6, s.weights, stride);
  _tile_loadd(5, s.x + kSide * s.x_stride, 2 * s.x_stride);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(2, 5, 6);
  if constexpr (kColumnTiles > 1) {
    _tile_loadd(7, s.weights + kInputs, stride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
}

// A last step with fewer inputs, padded with zeros.
struct LastStep {
  alignas(64) std::uint16_t x[2 * kSide][kInputs] = {};
  alignas(64) std::uint16_t weights[kInputs / 2][2 * kMostColumns] = {};

  Step filled(const Step& s, std::int64_t inputs, std::int64_t rows, std::int64_t columns) {
    const auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; };
    for (std::int64_t r = 0; r < rows; ++r) __builtin_memcpy(x[r], s.x + r * s.x_stride, bytes(inputs));
    for (std::int64_t pair = 0; pair < inputs / 2; ++pair) {
      __builtin_memcpy(weights[pair], s.weights + pair * s.weights_stride, bytes(2 * columns));
    }
    asm volatile("" ::: "memory");  // the intrinsics do not say that they read it
    return {&x[0][0], kInputs, &weights[0][0], 2 * kMostColumns};
  }
};

using Sums = float[2 * kSide][kMostColumns];

// Sums of `rows` rows, at most 32, by kColumnTiles tiles of columns.
template <bool kManyRows, int kColumnTiles>
void sum_up(Step s, std::int64_t in, std::int64_t rows, Fetching& fetching, Sums& sums) {
  const auto add = [](const Step& step) __attribute__((always_inline)) {
    kManyRows ? add_many_rows<kColumnTiles>(step) : add_few_rows<kColumnTiles>(step);
  };
  fetching.begin_part();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (; in >= kInputs; in -= kInputs) {
    add(s);
    fetching.step();
    s.x += kInputs;
    s.weights += kInputs / 2 * s.weights_stride;
  }
  if (in > 0) {
    LastStep last;
    add(last.filled(s, in, rows, kColumnTiles * kSide));
  }
  constexpr std::int64_t kStride = kMostColumns * sizeof(float);
  _tile_stored(0, &sums[0][0], kStride);
  if constexpr (kColumnTiles > 1) _tile_stored(1, &sums[0][kSide], kStride);
  if constexpr (kManyRows) {
    _tile_stored(2, &sums[kSide][0], kStride);
    if constexpr (kColumnTiles > 1) _tile_stored(3, &sums[kSide][kSide], kStride);
  } else {
    if constexpr (kColumnTiles > 2) _tile_stored(2, &sums[0][2 * kSide], kStride);
    if constexpr (kColumnTiles > 3) _tile_stored(3, &sums[0][3 * kSide], kStride);
  }
}

using SumUp = void (*)(Step, std::int64_t in, std::int64_t rows, Fetching&, Sums&);
constexpr SumUp kFewRows[4] = {sum_up<false, 1>, sum_up<false, 2>, sum_up<false, 3>, sum_up<false, 4>};
constexpr SumUp kManyRows[2] = {sum_up<true, 1>, sum_up<true, 2>};

// Where sums belong in the product.
struct Part {
  std::int64_t row, rows, column, column_tiles;
};

// Sums of the first `column_tiles` tiles of a block of 16 * `sixteens` columns, handed out in parts.
template <class Store>
void in_parts(const BlockProduct& p, std::int64_t sixteens, std::int64_t column_tiles, const Store& store) {
  const std::int64_t stride = 2 * kSide * sixteens;
  alignas(64) Sums sums = {};
  Fetching fetching(p, parts_of(p.rows, 2 * kSide) * parts_of(column_tiles, p.rows > kSide ? 2 : 4),
                    parts_of(p.in, kInputs));
  std::int64_t shaped = 0;
  for (std::int64_t row = 0; row < p.rows; row += 2 * kSide) {
    const std::int64_t rows = smaller(p.rows - row, 2 * kSide);
    const std::int64_t most = rows > kSide ? 2 : 4;
    if (rows != shaped) shape_tiles(shaped = rows);
    for (std::int64_t tile = 0; tile < column_tiles; tile += most) {
      const std::int64_t tiles = smaller(column_tiles - tile, most);
      (rows > kSide ? kManyRows : kFewRows)[tiles - 1](
          {.x = static_cast<const std::uint16_t*>(p.x) + row * p.x_stride,
           .x_stride = p.x_stride,
           .weights = static_cast<const std::uint16_t*>(p.block) + 2 * kSide * tile,
           .weights_stride = stride},
          p.in, rows, fetching, sums);
      store(Part{row, rows, kSide * tile, tiles}, sums);
    }
  }
  _tile_release();
}

template <int kSixteens>
void block_product_by_tiles(const BlockProduct& p) {
  in_parts(
      p, kSixteens, kSixteens, [&](const Part& part, const Sums& sums) __attribute__((always_inline)) {
        const auto* bias = static_cast<const std::uint16_t*>(p.bias);
        for (std::int64_t tile = 0; tile < part.column_tiles; ++tile) {
          const std::int64_t column = part.column + kSide * tile;
          const Floats added = bias == nullptr ? Floats{} : Bfloat16Elements::bias(bias + column);
          for (std::int64_t r = 0; r < part.rows; ++r) {
            const Floats sum = floats_at(&sums[r][kSide * tile]);
            Bfloat16Elements::store_all(
                static_cast<std::uint16_t*>(p.out) + (part.row + r) * p.out_stride + column, sum + added);
          }
        }
      });
}

void unrounded_columns_by_tiles(const BlockProduct& p, std::int64_t sixteens, std::int64_t columns) {
  in_parts(
      p, sixteens,
      parts_of(columns, kSide), [&](const Part& part, const Sums& sums) __attribute__((always_inline)) {
        write_exchanged<Unrounded<Bfloat16Elements>>(
            p, {&sums[0][0], kMostColumns, part.row, part.rows, part.column,
                smaller(kSide * part.column_tiles, columns - part.column)});
      });
}

void put_tile_products(Kernels& kernels) {
  kernels.bfloat16_blocks[0] = block_product_by_tiles<1>;
  kernels.bfloat16_blocks[1] = block_product_by_tiles<2>;
  kernels.bfloat16_blocks[2] = block_product_by_tiles<3>;
  kernels.bfloat16_blocks[3] = block_product_by_tiles<4>;
  kernels.bfloat16_blocks[4] = block_product_by_tiles<5>;
  kernels.bfloat16_blocks[5] = block_product_by_tiles<6>;
  kernels.unrounded_columns = unrounded_columns_by_tiles;
}

}  // namespace
}  // namespace hooked::kernels
