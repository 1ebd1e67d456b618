#include "models/kernels/packed_product.h"

#include "models/kernels/packed_sets.h"

namespace hooked::kernels {

#ifdef HOOKED_PACKED_KERNELS

Instructions best_instructions() {
  static const Instructions kBest = [] {
    if (__builtin_cpu_supports("x86-64-v4")) {
      return __builtin_cpu_supports("avx512bf16") ? Instructions::avx512_bf16 : Instructions::avx512;
    }
    return __builtin_cpu_supports("x86-64-v3") ? Instructions::avx2 : Instructions::none;
  }();
  return kBest;
}

bool has_bfloat16_tiles() { return __builtin_cpu_supports("amx-bf16") != 0; }

namespace {

// The kernel that a getter of the instruction set gives; null without any set.
template <class Kernel, class... Arguments>
Kernel kernel_of(Instructions instructions, Kernel (*avx2)(Arguments...), Kernel (*avx512)(Arguments...),
                 Kernel (*avx512_bf16)(Arguments...), Arguments... arguments) {
  switch (instructions) {
    case Instructions::none:
      return nullptr;
    case Instructions::avx2:
      return avx2(arguments...);
    case Instructions::avx512:
      return avx512(arguments...);
    case Instructions::avx512_bf16:
      return avx512_bf16(arguments...);
  }
  return nullptr;
}

}  // namespace

BlockKernel float_kernel(Instructions instructions, std::int64_t sixteens) {
  return kernel_of(instructions, float_kernel_avx2, float_kernel_avx512, float_kernel_avx512, sixteens);
}

BlockKernel bfloat16_kernel(Instructions instructions, std::int64_t sixteens) {
  return kernel_of(instructions, bfloat16_kernel_avx2, bfloat16_kernel_avx512, bfloat16_kernel_avx512_bf16,
                   sixteens);
}

DotKernel float_dots(Instructions instructions) {
  return kernel_of(instructions, float_dots_avx2, float_dots_avx512, float_dots_avx512);
}

DotKernel bfloat16_dots(Instructions instructions) {
  return kernel_of(instructions, bfloat16_dots_avx2, bfloat16_dots_avx512, bfloat16_dots_avx512_bf16);
}

DotKernel unrounded_dots(Instructions instructions) {
  return kernel_of(instructions, unrounded_dots_avx2, unrounded_dots_avx512, unrounded_dots_avx512_bf16);
}

DotKernel half_dots(Instructions instructions) {
  return kernel_of(instructions, half_dots_avx2, half_dots_avx512, half_dots_avx512);
}

PanelKernel float_panel(Instructions instructions) {
  return kernel_of(instructions, float_panel_avx2, float_panel_avx512, float_panel_avx512);
}

PanelKernel bfloat16_panel(Instructions instructions) {
  return kernel_of(instructions, bfloat16_panel_avx2, bfloat16_panel_avx512, bfloat16_panel_avx512);
}

#else

Instructions best_instructions() { return Instructions::none; }
bool has_bfloat16_tiles() { return false; }
BlockKernel float_kernel(Instructions, std::int64_t) { return nullptr; }
BlockKernel bfloat16_kernel(Instructions, std::int64_t) { return nullptr; }
PanelKernel float_panel(Instructions) { return nullptr; }
PanelKernel bfloat16_panel(Instructions) { return nullptr; }
DotKernel float_dots(Instructions) { return nullptr; }
DotKernel bfloat16_dots(Instructions) { return nullptr; }
DotKernel unrounded_dots(Instructions) { return nullptr; }
DotKernel half_dots(Instructions) { return nullptr; }

#endif

}  // namespace hooked::kernels
