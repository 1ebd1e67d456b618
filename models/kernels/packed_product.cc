#include "models/kernels/packed_product.h"

#include "models/kernels/packed_sets.h"

#if defined(HOOKED_PACKED_KERNELS) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hooked::kernels {

#ifdef HOOKED_PACKED_KERNELS

namespace {

// Linux keeps the registers of tiles for those who ask (Documentation/arch/x86/xstate.rst), all threads of a
// process at once.
bool may_use_tiles() {
#ifdef SYS_arch_prctl
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
         ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

Instructions best_instructions() {
  static const Instructions kBest = [] {
    using enum Instructions;
    if (!__builtin_cpu_supports("x86-64-v4")) return __builtin_cpu_supports("x86-64-v3") ? avx2 : none;
    if (!__builtin_cpu_supports("avx512bf16")) return avx512;
    return may_use_tiles() ? amx_bf16 : avx512_bf16;
  }();
  return kBest;
}

namespace {

// The getters of a kind of kernel, one for each instruction set.
template <class Kernel, class... Arguments>
struct Kernels {
  using Getter = Kernel (*)(Arguments...);
  Getter avx2, avx512, avx512_bf16, amx_bf16;

  // Null without any set.
  Kernel of(Instructions instructions, Arguments... arguments) const {
    switch (instructions) {
      case Instructions::none:
        return nullptr;
      case Instructions::avx2:
        return avx2(arguments...);
      case Instructions::avx512:
        return avx512(arguments...);
      case Instructions::avx512_bf16:
        return avx512_bf16(arguments...);
      case Instructions::amx_bf16:
        return amx_bf16(arguments...);
    }
    return nullptr;
  }
};

using Blocks = Kernels<BlockKernel, std::int64_t>;
using Dots = Kernels<DotKernel>;
using Panels = Kernels<PanelKernel>;
using Columns = Kernels<ColumnKernel>;

constexpr Blocks kFloatBlocks = {float_kernel_avx2, float_kernel_avx512, float_kernel_avx512,
                                 float_kernel_avx512};
constexpr Blocks kBfloat16Blocks = {bfloat16_kernel_avx2, bfloat16_kernel_avx512, bfloat16_kernel_avx512_bf16,
                                    bfloat16_kernel_amx};
constexpr Dots kFloatDots = {float_dots_avx2, float_dots_avx512, float_dots_avx512, float_dots_avx512};
constexpr Dots kBfloat16Dots = {bfloat16_dots_avx2, bfloat16_dots_avx512, bfloat16_dots_avx512_bf16,
                                bfloat16_dots_avx512_bf16};
constexpr Dots kUnroundedDots = {unrounded_dots_avx2, unrounded_dots_avx512, unrounded_dots_avx512_bf16,
                                 unrounded_dots_avx512_bf16};
constexpr Dots kHalfDots = {half_dots_avx2, half_dots_avx512, half_dots_avx512, half_dots_avx512};
constexpr Columns kFloatColumns = {float_columns_avx2, float_columns_avx512, float_columns_avx512,
                                   float_columns_avx512};
constexpr Columns kUnroundedColumns = {unrounded_columns_avx2, unrounded_columns_avx512,
                                       unrounded_columns_avx512_bf16, unrounded_columns_amx};
constexpr Panels kFloatPanels = {float_panel_avx2, float_panel_avx512, float_panel_avx512,
                                 float_panel_avx512};
constexpr Panels kBfloat16Panels = {bfloat16_panel_avx2, bfloat16_panel_avx512, bfloat16_panel_avx512,
                                    bfloat16_panel_avx512};

}  // namespace

BlockKernel float_kernel(Instructions instructions, std::int64_t sixteens) {
  return kFloatBlocks.of(instructions, sixteens);
}
BlockKernel bfloat16_kernel(Instructions instructions, std::int64_t sixteens) {
  return kBfloat16Blocks.of(instructions, sixteens);
}
DotKernel float_dots(Instructions instructions) { return kFloatDots.of(instructions); }
DotKernel bfloat16_dots(Instructions instructions) { return kBfloat16Dots.of(instructions); }
DotKernel unrounded_dots(Instructions instructions) { return kUnroundedDots.of(instructions); }
DotKernel half_dots(Instructions instructions) { return kHalfDots.of(instructions); }
PanelKernel float_panel(Instructions instructions) { return kFloatPanels.of(instructions); }
PanelKernel bfloat16_panel(Instructions instructions) { return kBfloat16Panels.of(instructions); }
ColumnKernel float_columns(Instructions instructions) { return kFloatColumns.of(instructions); }
ColumnKernel unrounded_columns(Instructions instructions) { return kUnroundedColumns.of(instructions); }

#else

Instructions best_instructions() { return Instructions::none; }
BlockKernel float_kernel(Instructions, std::int64_t) { return nullptr; }
BlockKernel bfloat16_kernel(Instructions, std::int64_t) { return nullptr; }
PanelKernel float_panel(Instructions) { return nullptr; }
PanelKernel bfloat16_panel(Instructions) { return nullptr; }
DotKernel float_dots(Instructions) { return nullptr; }
DotKernel bfloat16_dots(Instructions) { return nullptr; }
DotKernel unrounded_dots(Instructions) { return nullptr; }
DotKernel half_dots(Instructions) { return nullptr; }
ColumnKernel float_columns(Instructions) { return nullptr; }
ColumnKernel unrounded_columns(Instructions) { return nullptr; }

#endif

}  // namespace hooked::kernels
