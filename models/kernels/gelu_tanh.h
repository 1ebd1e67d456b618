#pragma once

#include <cstdint>

namespace hooked::kernels {

/// GELU by tanh of `count` numbers; see gelu_tanh_into.
void gelu_tanh(float* out, const float* in, std::int64_t count);
/// As above, of brain floats by their bits.
void gelu_tanh(std::uint16_t* out, const std::uint16_t* in, std::int64_t count);

/// `gradient` times its derivative at `in`.
void gelu_tanh_back(float* out, const float* gradient, const float* in, std::int64_t count);

}  // namespace hooked::kernels
