#pragma once

#include "models/kernels/loops/packed_tiles.h"

namespace hooked::kernels {
namespace {

// IEEE half precision; only dots are needed. The set of kernels says how to widen it.
struct HalfElements {
  using Element = std::uint16_t;
  using Result = float;
  static constexpr int kDepth = 1;
  using Weights = Floats;

  [[gnu::always_inline]] static Weights weights(const Element* w) { return floats_of(halves_at(w)); }
  [[gnu::always_inline]] static void add(Floats& sum, const Weights& w, const Weights& x) { sum += w * x; }
  [[gnu::always_inline]] static float number(Element element) { return floats_of(Halves{element})[0]; }
  [[gnu::always_inline]] static void store_one(Result* out, float sum) { *out = sum; }
};

}  // namespace
}  // namespace hooked::kernels
