#include "loading/adapter/kernels/product_row.h"

namespace hooked {

void add_product_row(const double* rows, std::int64_t stride, const double* weights, std::int64_t count,
                     double* __restrict sums, std::int64_t width) {
  std::int64_t k = 0;
  for (; k + 4 <= count; k += 4) {  // four at a time, so that sums are written less often
    const double* const row = rows + k * stride;
    const double a = weights[k], b = weights[k + 1], c = weights[k + 2], d = weights[k + 3];
    for (std::int64_t i = 0; i < width; ++i) {
      sums[i] += a * row[i] + b * row[stride + i] + c * row[2 * stride + i] + d * row[3 * stride + i];
    }
  }
  for (; k < count; ++k) {
    const double weight = weights[k];
    const double* const row = rows + k * stride;
    for (std::int64_t i = 0; i < width; ++i) sums[i] += weight * row[i];
  }
}

}  // namespace hooked
