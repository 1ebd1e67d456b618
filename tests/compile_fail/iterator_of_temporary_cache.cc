// expect: deleted
#include "hooked/engine/hooked_transformer.h"

bool every_entry(const hooked::HookedTransformer& model, const at::Tensor& tokens) {
  bool all = true;
  for (const auto& entry : model.run_with_cache(tokens).cache) all = all && entry.value().defined();
  return all;
}

#ifdef HOOKED_MUST_NOT_COMPILE
auto first_entry(const hooked::HookedTransformer& model, const at::Tensor& tokens) {
  return model.run_with_cache(tokens).cache.begin();
}
#endif
