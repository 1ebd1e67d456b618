#pragma once

#include "models/kernels/loops/numbers.h"

namespace hooked::kernels {
namespace {

template <class Number>
void rotary_row(const RotaryRow& how, Number* __restrict out, const Number* __restrict in,
                const Number* __restrict cosine, const Number* __restrict sine) {
  const std::int64_t half = how.half, turning = how.at_end ? how.size - 2 * half : 0;
  for (std::int64_t i = 0; i < turning; ++i) out[i] = in[i];
  for (std::int64_t i = turning + 2 * half; i < how.size; ++i) out[i] = in[i];
  out += turning;
  in += turning;
  if (how.adjacent_pairs) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float a = widened(in[2 * i]), b = widened(in[2 * i + 1]), c = widened(cosine[i]),
                  s = widened(sine[i]);
      put(out + 2 * i, a * c - b * s);
      put(out + 2 * i + 1, b * c + a * s);
    }
    return;
  }
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = widened(in[i]), b = widened(in[half + i]), c = widened(cosine[i]), s = widened(sine[i]);
    put(out + i, a * c - b * s);
    put(out + half + i, b * c + a * s);
  }
}

}  // namespace
}  // namespace hooked::kernels
