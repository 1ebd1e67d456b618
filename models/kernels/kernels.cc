#include "models/kernels/kernels.h"

#include <cassert>

#include "core/compiled_kernels.h"

// Note [Kernel sets]
// A loop is written once, in a header of kernels/loops, and compiled for each instruction set that it gains
// from: a source of kernels/sets sets the compiler's target, includes the loops, and puts their functions
// into a copy of the previous set's table. So nobody needs -march, one build serves all machines, and one
// variable chooses the set before any kernel runs (hooked/core/kernel_set.h).
//
// A source of a set must not define anything that other sources may share. An inline function of a header,
// compiled for AVX-512 and kept by the linker, would end the program on a processor without it. So loops
// include no header that defines functions, and everything they define is in an anonymous namespace; a test
// reads the objects' symbols.

namespace hooked::kernels {

const Kernels& kernels_of([[maybe_unused]] KernelSet set) {
#ifdef HOOKED_COMPILES_KERNELS
  switch (set) {
    case KernelSet::plain:
      break;
    case KernelSet::avx2: {
      static const Kernels kAvx2 = avx2_kernels();
      return kAvx2;
    }
    case KernelSet::avx512: {
      static const Kernels kAvx512 = avx512_kernels();
      return kAvx512;
    }
    case KernelSet::avx512_bf16: {
      static const Kernels kAvx512Bf16 = avx512_bf16_kernels(kernels_of(KernelSet::avx512));
      return kAvx512Bf16;
    }
    case KernelSet::amx: {
      static const Kernels kAmx = amx_kernels(kernels_of(KernelSet::avx512_bf16));
      return kAmx;
    }
  }
#endif
  assert(false);
  static const Kernels kNone{};
  return kNone;
}

const Kernels* own_kernels() {
  static const Kernels* const kOwn = kernel_set() == KernelSet::plain ? nullptr : &kernels_of(kernel_set());
  return kOwn;
}

}  // namespace hooked::kernels
