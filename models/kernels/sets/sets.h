#pragma once

#include "models/kernels/kernels.h"

namespace hooked::kernels {

/// The table of each set. The last two copy the previous set's table and replace what they do differently.
/// These functions are compiled for their set, as the kernels are.
Kernels avx2_kernels();
Kernels avx512_kernels();
Kernels avx512_bf16_kernels(Kernels avx512);
Kernels amx_kernels(Kernels avx512_bf16);

}  // namespace hooked::kernels
