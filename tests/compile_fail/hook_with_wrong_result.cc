// expect: a hook returns a tensor
#include "hooked/hooks/hook.h"

namespace act = hooked::act;

const hooked::Hook editor(act::z(1), [](const at::Tensor& z) { return z; });

#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Hook wrong(act::z(1), [](const at::Tensor&) { return 0.5; });
#endif
