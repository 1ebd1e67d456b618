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

// Rounded to the nearest, ties to even.
[[gnu::always_inline]] inline Halves halves_of(Floats numbers) {
  return reinterpret_cast<Halves>(__builtin_ia32_vcvtps2ph256(numbers, 0));
}

[[gnu::always_inline]] inline Integers integers_of(Bytes bytes) {
  const auto both = __builtin_bit_cast(std::int64_t, bytes);
  return reinterpret_cast<Integers>(__builtin_ia32_pmovsxbd256(__builtin_bit_cast(__v16qi, __v2di{both, 0})));
}

}  // namespace
}  // namespace hooked::kernels

#include "models/kernels/loops/all_of_a_set.h"  // which calls it

namespace hooked::kernels {

Kernels avx2_kernels() { return by_vectors(); }

}  // namespace hooked::kernels
#endif
