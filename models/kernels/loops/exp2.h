#pragma once

namespace hooked::kernels {
namespace {

/// 2^t for t up to 128; infinity above, nearly 0 below -126, NaN of NaN. The polynomial is 2^f on -0.5 to
/// 0.5, Taylor's to the sixth power (relative error 2e-7).
[[gnu::always_inline]] inline float exp2_of(float t) {
  constexpr float kRounding = 12582912.0f;  // 1.5 * 2^23: adding it leaves whole numbers
  t = t > 128.0f ? 128.0f : t;
  t = t < -126.0f ? -126.0f : t;
  const float shifted = t + kRounding;
  const float f = t - (shifted - kRounding);
  float p = 1.5403530e-4f;
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  // The whole number is the difference of the bits, which a NaN has as well. (std::bit_cast would be a call.)
  const std::uint32_t whole =
      __builtin_bit_cast(std::uint32_t, shifted) - __builtin_bit_cast(std::uint32_t, kRounding);
  return p * __builtin_bit_cast(float, (whole + 127) << 23);
}

}  // namespace
}  // namespace hooked::kernels
