#include "core/compiled_kernels.h"
#include "models/kernels/kernels.h"

#ifdef HOOKED_COMPILES_KERNELS
#include <immintrin.h>
#pragma GCC target("arch=x86-64-v4,avx512bf16,amx-tile,amx-bf16")
#define HOOKED_LANES 16
#include "models/kernels/loops/tile_products.h"

namespace hooked::kernels {

Kernels amx_kernels(Kernels avx512_bf16) {
  put_tile_products(avx512_bf16);
  return avx512_bf16;
}

}  // namespace hooked::kernels
#endif
