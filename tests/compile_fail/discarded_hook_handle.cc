// expect: ignoring return.*HookHandle
#include "hooked/engine/hooked_transformer.h"

namespace act = hooked::act;

void kept(hooked::HookedTransformer& model) {
  const auto handle = model.hook(act::z(1), [](const at::Tensor&) {});
  model.run(at::Tensor());
}

#ifdef HOOKED_MUST_NOT_COMPILE
void gone_at_once(hooked::HookedTransformer& model) {
  model.hook(act::z(1), [](const at::Tensor&) {});
}
#endif
