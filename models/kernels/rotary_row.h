#pragma once

#include <cstdint>

namespace hooked::kernels {

/// Which numbers of a row turn; see rotate.
struct RotaryRow {
  std::int64_t size;    ///< numbers in a row
  std::int64_t half;    ///< pairs that turn
  bool at_end;          ///< the last 2 half numbers turn, else the first
  bool adjacent_pairs;  ///< neighbours are a pair, else number i and number half + i
};

/// A row turned by the angles with these cosines and sines, the other numbers copied. Brain floats are given
/// by their bits.
void rotary_row(const RotaryRow& how, float* out, const float* in, const float* cosine, const float* sine);
void rotary_row(const RotaryRow& how, std::uint16_t* out, const std::uint16_t* in,
                const std::uint16_t* cosine, const std::uint16_t* sine);

}  // namespace hooked::kernels
