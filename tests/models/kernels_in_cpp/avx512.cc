#define HOOKED_LANES 16
#include "tests/models/kernels_in_cpp/tables.h"
// Which the loops call.
#include "tests/models/kernels_in_cpp/half_precision.h"
// After it.
#include "models/kernels/loops/all_of_a_set.h"

namespace hooked::kernels {

Kernels avx512_in_cpp() { return by_vectors(); }

}  // namespace hooked::kernels
