// expect: constraints not satisfied|no matching
#include "hooked/hooks/hook.h"

namespace act = hooked::act;

const hooked::Hook observer(act::z(1), [](const at::Tensor&) {});

#ifdef HOOKED_MUST_NOT_COMPILE
const hooked::Hook wrong(act::z(1), [](const std::string&) {});
#endif
