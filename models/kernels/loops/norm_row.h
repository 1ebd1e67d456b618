#pragma once

#include "models/kernels/loops/numbers.h"

namespace hooked::kernels {
namespace {

constexpr std::int64_t kSums = 16;  // parallel sums: one vector of them, and less rounding than one sum

// The sum of f(i) for i below n.
template <class F>
[[gnu::always_inline]] inline float sum_over(std::int64_t n, F f) {
  float lanes[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::int64_t lane = 0; lane < kSums; ++lane) lanes[lane] += f(i + lane);
  }
  for (; i < n; ++i) lanes[i % kSums] += f(i);
  float sum = 0.0f;
  for (float lane : lanes) sum += lane;
  return sum;
}

struct Statistics {
  float mean, scale;
};

template <class Number>
[[gnu::always_inline]] inline Statistics statistics(const NormRow& how, const Number* __restrict in) {
  const std::int64_t n = how.size;
  const float count = static_cast<float>(n);
  const float mean = how.centred ? sum_over(n, [&](std::int64_t i) { return widened(in[i]); }) / count : 0.0f;
  const float square = sum_over(n, [&](std::int64_t i) {
    const float x = widened(in[i]) - mean;
    return x * x;
  });
  return {mean, __builtin_sqrtf(square / count + how.eps)};
}

template <class Number>
void norm_row(const NormRow& how, const NormedRow<Number>& row) {
  const std::int64_t n = how.size;
  const Number* __restrict in = row.in;
  const auto [mean, scale] = statistics(how, in);
  if (row.scale != nullptr) *row.scale = scale;
  const float factor = 1.0f / scale;
  if (Number* __restrict normalized = row.normalized; normalized != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) put(normalized + i, (widened(in[i]) - mean) * factor);
  }
  Number* __restrict weighted = row.weighted;
  if (weighted == nullptr) return;
  const Number* __restrict w = row.weight;
  const Number* __restrict b = row.bias;
  const float offset = how.weight_offset;
  if (w == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) put(weighted + i, (widened(in[i]) - mean) * factor);
  } else if (b == nullptr) {
    for (std::int64_t i = 0; i < n; ++i)
      put(weighted + i, (widened(in[i]) - mean) * factor * (offset + widened(w[i])));
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      put(weighted + i, (widened(in[i]) - mean) * factor * (offset + widened(w[i])) + widened(b[i]));
  }
}

// With y = (x - mean) / scale and g the gradient times the weight, the gradient of x is (g - mean(g) - y
// mean(g y)) / scale, without mean(g) if nothing is centred.
template <class Number>
void norm_row_back(const NormRow& how, const NormRowBack<Number>& row) {
  const std::int64_t n = how.size;
  const Number* __restrict in = row.in;
  const Number* __restrict w = row.weight;
  const Number* __restrict gradient = row.gradient;
  Number* __restrict out = row.out;
  const auto [mean, scale] = statistics(how, in);
  const float factor = 1.0f / scale, count = static_cast<float>(n), offset = how.weight_offset;
  const float middle = mean;  // a structured binding cannot be captured
  const auto pass = [&](auto weighted) __attribute__((always_inline)) {
    const float sum = how.centred ? sum_over(n, weighted) / count : 0.0f;
    const float along =
        sum_over(
            n, [&](std::int64_t i)
                   __attribute__((always_inline)) { return weighted(i) * (widened(in[i]) - middle); }) *
        factor * factor / count;
    for (std::int64_t i = 0; i < n; ++i) {
      put(out + i, (weighted(i) - sum - (widened(in[i]) - middle) * along) * factor);
    }
  };
  if (w == nullptr) {
    pass([&](std::int64_t i) __attribute__((always_inline)) { return widened(gradient[i]); });
  } else {
    pass([&](std::int64_t i)
             __attribute__((always_inline)) { return widened(gradient[i]) * (offset + widened(w[i])); });
  }
}

}  // namespace
}  // namespace hooked::kernels
