#include "core/compiled_kernels.h"
#include "models/kernels/kernels.h"

#ifdef HOOKED_COMPILES_KERNELS
#include <immintrin.h>
#pragma GCC target("arch=x86-64-v4")
#define HOOKED_LANES 16
#include "models/kernels/loops/vectors.h"

namespace hooked::kernels {
namespace {

[[gnu::always_inline]] inline Floats floats_of(Halves ieee) {
  constexpr int kCurrentRounding = 4;
  return __builtin_ia32_vcvtph2ps512_mask(reinterpret_cast<__v16hi>(ieee), Floats{}, 0xffff,
                                          kCurrentRounding);
}

// Rounded to the nearest, ties to even.
[[gnu::always_inline]] inline Halves halves_of(Floats numbers) {
  return reinterpret_cast<Halves>(__builtin_ia32_vcvtps2ph512_mask(numbers, 0, __v16hi{}, 0xffff));
}

[[gnu::always_inline]] inline Integers integers_of(Bytes bytes) {
  return reinterpret_cast<Integers>(
      __builtin_ia32_pmovsxbd512_mask(reinterpret_cast<__v16qi>(bytes), __v16si{}, 0xffff));
}

}  // namespace
}  // namespace hooked::kernels

#include "models/kernels/loops/all_of_a_set.h"  // which calls it

namespace hooked::kernels {

Kernels avx512_kernels() { return by_vectors(); }

}  // namespace hooked::kernels
#endif
