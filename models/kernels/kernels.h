#pragma once

#include <cstdint>

#include "core/coded_form.h"
#include "hooked/core/kernel_set.h"

/// The loops that hooked implements itself, as one table for each instruction set (Note [Kernel sets],
/// models/kernels/kernels.cc). Nothing here may be a function that a kernel calls.
namespace hooked::kernels {

/// Scores of one head: some queries and neighbouring keys. Columns are counted over all keys; pointers
/// indexed by column point to column 0, even if the rows begin at another.
struct AttentionRows {
  float* scores;        ///< products of queries and keys, [row, key]; becomes the pattern
  std::int64_t stride;  ///< numbers from row to row
  std::int64_t rows;
  std::int64_t first_key, end_key;  ///< the columns that are here
  const std::int64_t* first;        ///< by row: the first column that its query sees; null: all
  const std::int64_t* end;          ///< and one past the last; null with `first`
  const bool* real;                 ///< by column: whether the token is real; null: all are
  const float* bias;                ///< null: nothing is added to scores
  const std::int64_t* bias_starts;  ///< by row: its bias for column k is bias[start + k]
  float soft_cap;                   ///< 0 is off
  const float* sink;                ///< a logit in the sum that has no column; null: none
  float* kept_scores;               ///< [row, column], all columns: the finished scores; null: not kept
  float* kept_pattern;              ///< the same for the pattern
  std::int64_t columns;             ///< of the kept scores and pattern
};

/// How rows are normed; see norm_rows_into.
struct NormRow {
  std::int64_t size;  ///< numbers in a row
  float eps;
  bool centred;         ///< LayerNorm: subtract the row's mean
  float weight_offset;  ///< a stored weight w means this + w
};

/// One row. Null: not wanted. `normalized` may be the weighted row if the norm has no weight. Brain floats
/// are given by their bits.
template <class Number>
struct NormedRow {
  const Number* in;
  const Number* weight;
  const Number* bias;
  Number* weighted;
  Number* normalized;
  float* scale;  ///< one number
};

/// One row's backward pass. Null: there is none.
template <class Number>
struct NormRowBack {
  const Number* in;
  const Number* weight;
  const Number* gradient;  ///< of the weighted row
  Number* out;             ///< the gradient of `in`
};

/// Which numbers of a row are rotated; see rotate.
struct RotaryRow {
  std::int64_t size;    ///< numbers in a row
  std::int64_t half;    ///< pairs that are rotated
  bool at_end;          ///< the last 2 half numbers are rotated, else the first
  bool adjacent_pairs;  ///< neighbours are a pair, else number i and number half + i
};

/// The likeliest token in a row of logits, and the sum for all probabilities.
struct RowPeak {
  float largest;       ///< NaN is skipped
  std::int64_t place;  ///< its first place
  double sum;          ///< of exp(number - largest) over the row; NaN where the row has one, or +infinity
};

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

/// Where the parts of a block of one strip are, in bytes from its factors on.
struct CodedLayout {
  std::int64_t offsets, scales, minimums, codes, end;
};

/// Neighbouring strips of a matrix that is stored in codes (Note [Coded strips],
/// models/storage/coded_strips.cc), each of kPackedColumns columns.
struct CodedColumns {
  const CodedForm* form;
  const CodedLayout* layout;
  const void* first;         ///< its bytes for inputs 0 to `in`
  std::int64_t strip_bytes;  ///< from one strip to the next
  std::int64_t count;        ///< of strips
  std::int64_t in;           ///< a multiple of the form's block
};

/// Rows of float32 times strips: out[r, c] = sum over i of x[r, i] w[i, c] + bias[c], added up in the order
/// of the inputs, as BlockProduct does.
struct CodedProduct {
  CodedColumns strips;
  const float* x;         ///< rows [rows, in]
  std::int64_t x_stride;  ///< elements from one row to the next
  const float* bias;      ///< [columns], or null
  float* out;             ///< [rows, columns]
  std::int64_t out_stride;
  std::int64_t rows;
};
using CodedKernel = void (*)(const CodedProduct&);
/// For each rounding: a table, e4m3, and integers of 2 to 8 bits.
constexpr int kKindsOfARounding = 9, kCodeKinds = 3 * kKindsOfARounding;
/// The place of a kernel of codes among those of its set.
constexpr int code_kind(CodeValues values, int bits, CodeRounding rounding) {
  const int value = values == CodeValues::table ? 0 : values == CodeValues::e4m3 ? 1 : bits;
  return static_cast<int>(rounding) * kKindsOfARounding + value;
}
constexpr int code_kind(const CodedForm& form) { return code_kind(form.values, form.bits, form.rounding); }

/// Writes the numbers of strips as a block of float32 for BlockProduct, [in, kPackedColumns * count], which
/// gives many rows the same bits faster.
using CodedPanelKernel = void (*)(const CodedColumns& strips, float* panel);

/// Loops over rows of float32, or of brain floats, which are given by their bits.
template <class Number>
struct RowKernels {
  /// GELU by tanh of `count` numbers; see gelu_tanh_into.
  void (*gelu_tanh)(Number* out, const Number* in, std::int64_t count);
  void (*norm)(const NormRow& how, const NormedRow<Number>& row);
  void (*norm_back)(const NormRow& how, const NormRowBack<Number>& row);
  /// A row with rotary applied, by the angles with these cosines and sines; the other numbers are copied.
  void (*rotary)(const RotaryRow& how, Number* out, const Number* in, const Number* cosine,
                 const Number* sine);
  /// out[i] = the sum over r of weights[r] rows[r][i], for `count` rows of `size` numbers, accumulated in
  /// float32 in the order of the rows. A row that is null adds nothing.
  void (*weighted)(Number* out, const Number* const* rows, const Number* weights, std::int64_t count,
                   std::int64_t size);
};

/// All kernels of a set.
struct Kernels {
  RowKernels<float> of_floats;
  RowKernels<std::uint16_t> of_bfloat16;
  /// `gradient` times the derivative of GELU by tanh at `in`.
  void (*gelu_tanh_back)(float* out, const float* gradient, const float* in, std::int64_t count);
  /// Cap, bias, mask and softmax of each row, in place, using the memory of one row at a time. Rows that see
  /// nothing become 0.
  void (*attend_rows)(const AttentionRows& rows);
  /// For a row of `count` numbers, at least one; read twice, the second time from the cache.
  RowPeak (*row_peak)(const float* row, std::int64_t count);
  /// The first place up to which the sum of exp(number - largest) is more than `share` (0 to less than 1) of
  /// the total: sampling by the probabilities. `peak` is the row's, with a finite sum.
  std::int64_t (*place_of_share)(const float* row, std::int64_t count, const RowPeak& peak, double share);

  /// For blocks of 16, 32, … columns.
  BlockKernel float_blocks[kMostSixteens], bfloat16_blocks[kMostSixteens];
  /// Results in float32, with unrounded sums, for rows and columns in bfloat16 or IEEE half precision.
  DotKernel unrounded_dots, half_dots;
  DotKernel float_dots, bfloat16_dots;
  ColumnKernel float_columns, unrounded_columns;
  PanelKernel float_panel, bfloat16_panel;
  /// By code_kind(); null for kinds that no file has.
  CodedKernel coded[kCodeKinds];
  CodedPanelKernel coded_panel[kCodeKinds];

  template <class Number>
  const RowKernels<Number>& rows() const {
    if constexpr (sizeof(Number) == sizeof(float)) {
      return of_floats;
    } else {
      return of_bfloat16;
    }
  }
};

/// The table of a set among kernel_sets() other than KernelSet::plain.
const Kernels& kernels_of(KernelSet set);

/// The table of the set in use; null for KernelSet::plain, which uses LibTorch's operators. Throws what
/// kernel_set() throws.
const Kernels* own_kernels();

/// The table of each set. The last two copy the previous set's table and replace what they do differently.
/// These functions are compiled for their set, as the kernels are.
Kernels avx2_kernels();
Kernels avx512_kernels();
Kernels avx512_bf16_kernels(Kernels avx512);
Kernels amx_kernels(Kernels avx512_bf16);

}  // namespace hooked::kernels
