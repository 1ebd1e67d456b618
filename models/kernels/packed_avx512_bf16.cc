#include "models/kernels/packed_sets.h"

#ifdef HOOKED_PACKED_KERNELS
#include <immintrin.h>
#pragma GCC target("arch=x86-64-v4,avx512bf16")
#define HOOKED_PACKED_LANES 16
#define HOOKED_PACKED_BFLOAT16_SUMS
#include "models/kernels/packed_tiles.h"
// In this order.
#include "models/kernels/packed_panels.h"
// Which this one needs.
#include "models/kernels/packed_columns.h"

namespace hooked::kernels {

BlockKernel bfloat16_kernel_avx512_bf16(std::int64_t sixteens) {
  return kernel_for<Bfloat16Elements>(sixteens);
}
DotKernel bfloat16_dots_avx512_bf16() { return row_dots<Bfloat16Elements>; }
DotKernel unrounded_dots_avx512_bf16() { return row_dots<UnroundedBfloat16>; }
ColumnKernel unrounded_columns_avx512_bf16() { return columns_of_block<UnroundedBfloat16>; }

}  // namespace hooked::kernels
#endif
