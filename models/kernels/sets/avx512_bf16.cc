#include "core/compiled_kernels.h"
#include "models/kernels/kernels.h"

#ifdef HOOKED_COMPILES_KERNELS
#include <immintrin.h>
#pragma GCC target("arch=x86-64-v4,avx512bf16")
#define HOOKED_LANES 16
#include "models/kernels/loops/vectors.h"

namespace hooked::kernels {
namespace {

// sum + both products of the two brain floats of each word.
[[gnu::always_inline]] inline Floats with_products_of_pairs(Floats sum, Words a, Words b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

}  // namespace
}  // namespace hooked::kernels

#include "models/kernels/loops/bfloat16_pairs.h"  // which calls it

namespace hooked::kernels {

Kernels avx512_bf16_kernels(Kernels avx512) {
  put_bfloat16<Bfloat16Pairs>(avx512);
  return avx512;
}

}  // namespace hooked::kernels
#endif
