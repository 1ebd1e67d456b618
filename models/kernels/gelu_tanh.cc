#include "models/kernels/gelu_tanh.h"

#include "models/kernels/exp2.h"
#include "models/kernels/many_processors.h"

namespace hooked::kernels {
namespace {

[[gnu::always_inline]] inline void each(float* __restrict out, const float* __restrict in,
                                        std::int64_t count) {
  constexpr float kFactor = -2.0f * 0.7978845608028654f * 1.4426950408889634f;  // of the exponent, in base 2
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = in[i];
    out[i] = x / (1.0f + exp2_of(kFactor * (x + 0.044715f * x * x * x)));
  }
}

}  // namespace

HOOKED_MANY_PROCESSORS
void gelu_tanh(float* out, const float* in, std::int64_t count) { each(out, in, count); }

}  // namespace hooked::kernels
