#define HOOKED_LANES 16
#include "tests/models/kernels_in_cpp/tables.h"
// Of HOOKED_LANES numbers.
#include "models/kernels/loops/vectors.h"

namespace hooked::kernels {
namespace {

inline Floats with_products_of_pairs(Floats sum, Words a, Words b) {
  sum += reinterpret_cast<Floats>(a & 0xffff0000u) * reinterpret_cast<Floats>(b & 0xffff0000u);
  sum += reinterpret_cast<Floats>(a << 16) * reinterpret_cast<Floats>(b << 16);
  return sum;
}

}  // namespace
}  // namespace hooked::kernels

#include "models/kernels/loops/bfloat16_pairs.h"  // which calls it

namespace hooked::kernels {

Kernels avx512_bf16_in_cpp(Kernels avx512) {
  put_bfloat16<Bfloat16Pairs>(avx512);
  return avx512;
}

}  // namespace hooked::kernels
