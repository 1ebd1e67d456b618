#pragma once

#include "models/kernels/loops/exp2.h"
#include "models/kernels/loops/numbers.h"

namespace hooked::kernels {
namespace {

constexpr float kRoot = 0.7978845608028654f;                    // of 2 / pi
constexpr float kFactor = -2.0f * kRoot * 1.4426950408889634f;  // of the exponent, in base 2

template <class Number>
void gelu_tanh(Number* __restrict out, const Number* __restrict in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = widened(in[i]);
    put(out + i, x / (1.0f + exp2_of(kFactor * (x + 0.044715f * x * x * x))));
  }
}

// With s the logistic function of 2 u(x), GELU is x s, and its derivative s + x s (1 - s) 2 u'(x).
void gelu_tanh_back(float* __restrict out, const float* __restrict gradient, const float* __restrict in,
                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = in[i], square = x * x;
    const float s = 1.0f / (1.0f + exp2_of(kFactor * (x + 0.044715f * x * square)));
    // Far out s (1 - s) is 0, and the rest may be infinite.
    const float slope = s * (1.0f - s);
    const float steepness = slope == 0.0f ? 0.0f : 2.0f * kRoot * x * (1.0f + 0.134145f * square) * slope;
    out[i] = gradient[i] * (s + steepness);
  }
}

}  // namespace
}  // namespace hooked::kernels
