// expect: discards qualifiers|not marked const
#include "hooked/engine/hooked_transformer.h"

namespace act = hooked::act;

hooked::HookHandle on_a_copy(const hooked::HookedTransformer& model) {
  auto copy = model;
  return copy.hook(act::z(1), [](const at::Tensor&) {});
}

#ifdef HOOKED_MUST_NOT_COMPILE
hooked::HookHandle on_the_shared_one(const hooked::HookedTransformer& model) {
  return model.hook(act::z(1), [](const at::Tensor&) {});
}
#endif
