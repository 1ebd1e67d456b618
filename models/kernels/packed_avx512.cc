#include "models/kernels/packed_sets.h"

#ifdef HOOKED_PACKED_KERNELS
#pragma GCC target("arch=x86-64-v4")
#define HOOKED_PACKED_LANES 16
#include "models/kernels/packed_tiles.h"
// In this order.
#include "models/kernels/packed_panels.h"
// Which this one needs.
#include "models/kernels/packed_columns.h"

namespace hooked::kernels {

BlockKernel float_kernel_avx512(std::int64_t sixteens) { return kernel_for<FloatElements>(sixteens); }
BlockKernel bfloat16_kernel_avx512(std::int64_t sixteens) { return kernel_for<Bfloat16Elements>(sixteens); }
PanelKernel float_panel_avx512() { return fill_panel<1>; }
PanelKernel bfloat16_panel_avx512() { return fill_panel<2>; }
DotKernel float_dots_avx512() { return row_dots<FloatElements>; }
DotKernel bfloat16_dots_avx512() { return row_dots<Bfloat16Elements>; }
DotKernel unrounded_dots_avx512() { return row_dots<UnroundedBfloat16>; }
DotKernel half_dots_avx512() { return row_dots<UnroundedHalf>; }
ColumnKernel float_columns_avx512() { return columns_of_block<FloatElements>; }
ColumnKernel unrounded_columns_avx512() { return columns_of_block<UnroundedBfloat16>; }

}  // namespace hooked::kernels
#endif
