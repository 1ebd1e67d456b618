#pragma once

#include <cstdint>

namespace hooked::kernels {

/// Rows times one block of a packed matrix (Note [Packed matrices], models/storage/matrix.cc): out[r, c] =
/// sum over i of x[r, i] block[i, c] + bias[c], accumulated in float32.
///
/// In float32 a block is [in, columns]. In bfloat16 it is [in / 2, columns, 2]: two neighbours of a column
/// are one word. The results of a row are the same bits whatever other rows there are.
struct BlockProduct {
  const void* x;          ///< rows [rows, in]
  std::int64_t x_stride;  ///< elements from one row to the next
  const void* block;      ///< aligned to 64 bytes
  std::int64_t in;        ///< even in bfloat16
  const void* bias;       ///< [columns], or null
  void* out;
  std::int64_t out_stride;
  std::int64_t rows;
  const void* next = nullptr;   ///< what the next product reads first; may be prefetched
  std::int64_t next_bytes = 0;  ///< its size
  bool more = false;            ///< float32: add to `out`, which has the sums over earlier inputs
};

using BlockKernel = void (*)(const BlockProduct&);

/// A block has this many columns times 1 to kMostSixteens.
constexpr std::int64_t kPackedColumns = 16;
constexpr std::int64_t kMostSixteens = 6;

/// The same for columns that are contiguous, [columns, in], and 1 to kMostDotRows rows.
using DotKernel = void (*)(const BlockProduct&, std::int64_t columns);
constexpr std::int64_t kMostDotRows = 8;

/// The first `columns` columns of a block of 16 * `sixteens`, transposed and with unrounded sums: out[c, r]
/// in float32 for columns c and rows r. A bias is [rows].
using ColumnKernel = void (*)(const BlockProduct&, std::int64_t sixteens, std::int64_t columns);

/// Some inputs of a packed matrix with all its outputs, transposed: a block whose columns are those inputs
/// and whose inputs are the matrix's outputs, for a product with the matrix itself instead of its transpose.
struct PanelOfInputs {
  const void* packed;     ///< the matrix's blocks, [block, in, columns] or in pairs of inputs
  std::int64_t blocks;    ///< number of blocks
  std::int64_t sixteens;  ///< columns of a block, divided by 16
  std::int64_t in;        ///< inputs of the matrix
  std::int64_t first;     ///< the panel's first input, a multiple of 16
  std::int64_t width;     ///< its inputs, a multiple of 16; those after the matrix's last become 0
  void* panel;            ///< [blocks * columns, width], in pairs of outputs, like the blocks' of inputs
};
using PanelKernel = void (*)(const PanelOfInputs&);

}  // namespace hooked::kernels
