#include "core/compiled_kernels.h"
#include "models/kernels/kernels.h"

#ifdef HOOKED_COMPILES_KERNELS
#include <immintrin.h>
#pragma GCC target("arch=x86-64-v3")
#define HOOKED_LANES 8
#include "models/kernels/loops/vectors.h"

namespace hooked::kernels {
namespace {

[[gnu::always_inline]] inline Floats floats_of(Halves ieee) {
  return __builtin_ia32_vcvtph2ps256(reinterpret_cast<__v8hi>(ieee));
}

}  // namespace
}  // namespace hooked::kernels

#include "models/kernels/loops/all_of_a_set.h"  // which calls it

namespace hooked::kernels {

Kernels avx2_kernels() { return by_vectors(); }

}  // namespace hooked::kernels
#endif
