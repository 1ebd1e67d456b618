#define HOOKED_LANES 16
#include "tests/models/kernels_in_cpp/tables.h"

// The instructions of tiles as "Intel Architecture Instruction Set Extensions Programming Reference", chapter
// 3, describes them. Anything the processor would refuse ends the program.
namespace hooked::kernels {
namespace {

struct Tile {
  std::int64_t rows = 0, row_bytes = 0;
  unsigned char bytes[16][64] = {};
};
thread_local Tile tiles[8];
thread_local bool configured = false;

void require(bool holds) {
  if (!holds) __builtin_trap();
}

template <class Number>
Number number_at(const Tile& tile, std::int64_t row, std::int64_t place) {
  Number number;
  __builtin_memcpy(&number, tile.bytes[row] + place * static_cast<std::int64_t>(sizeof number),
                   sizeof number);
  return number;
}

float brain_float_at(const Tile& tile, std::int64_t row, std::int64_t place) {
  return __builtin_bit_cast(float, std::uint32_t{number_at<std::uint16_t>(tile, row, place)} << 16);
}

void _tile_loadconfig(const void* shapes) {
  const auto* bytes = static_cast<const unsigned char*>(shapes);
  require(bytes[0] == 1);  // the palette
  for (int i = 0; i < 8; ++i) {
    tiles[i] = {};
    tiles[i].row_bytes = bytes[16 + 2 * i] + 256 * bytes[17 + 2 * i];
    tiles[i].rows = bytes[48 + i];
    require(tiles[i].rows >= 1 && tiles[i].rows <= 16 && tiles[i].row_bytes >= 1 && tiles[i].row_bytes <= 64);
  }
  configured = true;
}

void _tile_release() { configured = false; }

void _tile_zero(int tile) {
  require(configured);
  __builtin_memset(tiles[tile].bytes, 0, sizeof tiles[tile].bytes);
}

void _tile_loadd(int tile, const void* from, std::int64_t stride) {
  _tile_zero(tile);
  for (std::int64_t row = 0; row < tiles[tile].rows; ++row) {
    __builtin_memcpy(tiles[tile].bytes[row], static_cast<const char*>(from) + row * stride,
                     static_cast<std::size_t>(tiles[tile].row_bytes));
  }
}

void _tile_stored(int tile, void* to, std::int64_t stride) {
  require(configured);
  for (std::int64_t row = 0; row < tiles[tile].rows; ++row) {
    __builtin_memcpy(static_cast<char*>(to) + row * stride, tiles[tile].bytes[row],
                     static_cast<std::size_t>(tiles[tile].row_bytes));
  }
}

void _tile_dpbf16ps(int of_sums, int of_rows, int of_weights) {
  Tile& sums = tiles[of_sums];
  const Tile &a = tiles[of_rows], &b = tiles[of_weights];
  require(configured && sums.rows == a.rows && sums.row_bytes == b.row_bytes && a.row_bytes == 4 * b.rows);
  for (std::int64_t row = 0; row < sums.rows; ++row) {
    for (std::int64_t column = 0; column < sums.row_bytes / 4; ++column) {
      auto sum = number_at<float>(sums, row, column);
      for (std::int64_t pair = 0; pair < b.rows; ++pair) {
        sum += brain_float_at(a, row, 2 * pair) * brain_float_at(b, pair, 2 * column);
        sum += brain_float_at(a, row, 2 * pair + 1) * brain_float_at(b, pair, 2 * column + 1);
      }
      __builtin_memcpy(sums.bytes[row] + 4 * column, &sum, sizeof sum);
    }
  }
}

}  // namespace
}  // namespace hooked::kernels

#include "models/kernels/loops/tile_products.h"  // which calls them

namespace hooked::kernels {

Kernels amx_in_cpp(Kernels avx512_bf16) {
  put_tile_products(avx512_bf16);
  return avx512_bf16;
}

}  // namespace hooked::kernels
