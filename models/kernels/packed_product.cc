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

BlockKernel float_kernel(Instructions instructions, std::int64_t sixteens) {
  switch (instructions) {
    case Instructions::none:
      return nullptr;
    case Instructions::avx2:
      return float_kernel_avx2(sixteens);
    case Instructions::avx512:
    case Instructions::avx512_bf16:
      return float_kernel_avx512(sixteens);
  }
  return nullptr;
}

BlockKernel bfloat16_kernel(Instructions instructions, std::int64_t sixteens) {
  switch (instructions) {
    case Instructions::none:
      return nullptr;
    case Instructions::avx2:
      return bfloat16_kernel_avx2(sixteens);
    case Instructions::avx512:
      return bfloat16_kernel_avx512(sixteens);
    case Instructions::avx512_bf16:
      return bfloat16_kernel_avx512_bf16(sixteens);
  }
  return nullptr;
}

DotKernel float_dots(Instructions instructions) {
  switch (instructions) {
    case Instructions::none:
      return nullptr;
    case Instructions::avx2:
      return float_dots_avx2();
    case Instructions::avx512:
    case Instructions::avx512_bf16:
      return float_dots_avx512();
  }
  return nullptr;
}

DotKernel bfloat16_dots(Instructions instructions) {
  switch (instructions) {
    case Instructions::none:
      return nullptr;
    case Instructions::avx2:
      return bfloat16_dots_avx2();
    case Instructions::avx512:
      return bfloat16_dots_avx512();
    case Instructions::avx512_bf16:
      return bfloat16_dots_avx512_bf16();
  }
  return nullptr;
}

DotKernel unrounded_dots(Instructions instructions) {
  switch (instructions) {
    case Instructions::none:
      return nullptr;
    case Instructions::avx2:
      return unrounded_dots_avx2();
    case Instructions::avx512:
      return unrounded_dots_avx512();
    case Instructions::avx512_bf16:
      return unrounded_dots_avx512_bf16();
  }
  return nullptr;
}

DotKernel half_dots(Instructions instructions) {
  if (instructions == Instructions::none) return nullptr;
  return instructions == Instructions::avx2 ? half_dots_avx2() : half_dots_avx512();
}

PanelKernel float_panel(Instructions instructions) {
  if (instructions == Instructions::none) return nullptr;
  return instructions == Instructions::avx2 ? float_panel_avx2() : float_panel_avx512();
}

PanelKernel bfloat16_panel(Instructions instructions) {
  if (instructions == Instructions::none) return nullptr;
  return instructions == Instructions::avx2 ? bfloat16_panel_avx2() : bfloat16_panel_avx512();
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
