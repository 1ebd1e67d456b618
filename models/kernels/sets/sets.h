#pragma once

#include "models/kernels/kernels.h"

namespace hooked::kernels {

/// The table of each set. The last two put what they do in another way into the table of the set before.
/// These functions are compiled for their set, as the kernels are.
Kernels avx2_kernels();
Kernels avx512_kernels();
Kernels avx512_bf16_kernels(Kernels avx512);
Kernels amx_kernels(Kernels avx512_bf16);

}  // namespace hooked::kernels
