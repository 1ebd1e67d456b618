#pragma once

#include <cstdint>

#include "hooked/core/kernel_set.h"
#include "models/kernels/block_product.h"
#include "models/kernels/row_arguments.h"

/// The loops that hooked implements itself, as one table for each instruction set (Note [Kernel sets],
/// models/kernels/kernels.cc).
namespace hooked::kernels {

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

}  // namespace hooked::kernels
