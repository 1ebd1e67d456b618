#pragma once

#include "models/kernels/loops/attention_rows.h"
#include "models/kernels/loops/coded_strips.h"
#include "models/kernels/loops/gelu_tanh.h"
#include "models/kernels/loops/half_dots.h"
#include "models/kernels/loops/norm_row.h"
#include "models/kernels/loops/packed_columns.h"
#include "models/kernels/loops/packed_panels.h"
#include "models/kernels/loops/rotary_row.h"
#include "models/kernels/loops/row_peak.h"
#include "models/kernels/loops/weighted_rows.h"

namespace hooked::kernels {
namespace {

template <class Number>
constexpr RowKernels<Number> kRows = {.gelu_tanh = gelu_tanh<Number>,
                                      .norm = norm_row<Number>,
                                      .norm_back = norm_row_back<Number>,
                                      .rotary = rotary_row<Number>,
                                      .weighted = weighted_rows<Number>};

// All kernels, implemented with vectors only.
Kernels by_vectors() {
  Kernels kernels{};
  kernels.of_floats = kRows<float>;
  kernels.of_bfloat16 = kRows<std::uint16_t>;
  kernels.gelu_tanh_back = gelu_tanh_back;
  kernels.attend_rows = attend_rows;
  kernels.row_peak = row_peak;
  kernels.place_of_share = place_of_share;
  kernels.half_dots = row_dots<HalfElements>;
  kernels.float_dots = row_dots<FloatElements>;
  kernels.float_columns = columns_of_block<FloatElements>;
  kernels.float_panel = fill_panel<1>;
  kernels.bfloat16_panel = fill_panel<2>;
  put_blocks<FloatElements>(kernels.float_blocks);
  put_all_coded(kernels);
  put_bfloat16<Bfloat16Elements>(kernels);
  return kernels;
}

}  // namespace
}  // namespace hooked::kernels
