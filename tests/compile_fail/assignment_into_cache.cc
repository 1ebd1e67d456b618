// expect: passing .* as .this. argument discards qualifiers|no match for|no viable overloaded|deleted
#include "hooked/hooks/activation_cache.h"

namespace act = hooked::act;

at::Tensor read(const hooked::ActivationCache& cache) { return cache[act::pattern(1)]; }

#ifdef HOOKED_MUST_NOT_COMPILE
void write(hooked::ActivationCache& cache, const at::Tensor& value) { cache[act::pattern(1)] = value; }
#endif
