#pragma once

#include "models/kernels/packed_product.h"

/// Whether this compiler compiles functions for other processors than the one a program is built for.
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__)
#define HOOKED_PACKED_KERNELS
#endif

namespace hooked::kernels {

/// The kernels of each instruction set, for blocks of 16 * `sixteens` columns.
BlockKernel float_kernel_avx2(std::int64_t sixteens);
BlockKernel float_kernel_avx512(std::int64_t sixteens);
BlockKernel bfloat16_kernel_avx2(std::int64_t sixteens);
BlockKernel bfloat16_kernel_avx512(std::int64_t sixteens);
BlockKernel bfloat16_kernel_avx512_bf16(std::int64_t sixteens);
BlockKernel bfloat16_kernel_amx(std::int64_t sixteens);

/// As above, for columns that lie in one piece.
DotKernel float_dots_avx2();
DotKernel float_dots_avx512();
DotKernel bfloat16_dots_avx2();
DotKernel bfloat16_dots_avx512();
DotKernel bfloat16_dots_avx512_bf16();
DotKernel unrounded_dots_avx2();
DotKernel unrounded_dots_avx512();
DotKernel unrounded_dots_avx512_bf16();
DotKernel half_dots_avx2();
DotKernel half_dots_avx512();

/// As above, with rows and columns exchanged.
ColumnKernel float_columns_avx2();
ColumnKernel float_columns_avx512();
ColumnKernel unrounded_columns_avx2();
ColumnKernel unrounded_columns_avx512();
ColumnKernel unrounded_columns_avx512_bf16();
ColumnKernel unrounded_columns_amx();

/// What fills panels.
PanelKernel float_panel_avx2();
PanelKernel float_panel_avx512();
PanelKernel bfloat16_panel_avx2();
PanelKernel bfloat16_panel_avx512();

}  // namespace hooked::kernels
