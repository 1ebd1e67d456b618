#include "models/graph/parameter_stack.h"

#include <ATen/ops/empty.h>

#include <cassert>
#include <vector>

namespace hooked {

at::Tensor ParameterStack::part(const std::string& name, std::int64_t module, at::IntArrayRef sizes,
                                const at::TensorOptions& options) {
  at::Tensor& whole = wholes_[name];
  if (!whole.defined()) {
    std::vector<std::int64_t> all{modules_};
    all.insert(all.end(), sizes.begin(), sizes.end());
    whole = at::empty(all, options);
  }
  assert(whole.sizes().slice(1) == sizes);
  // A leaf like any other parameter, and not a view as far as gradients are concerned.
  return whole.select(0, module).variable_data();
}

at::Tensor ParameterStack::whole(const std::string& name) const {
  const auto found = wholes_.find(name);
  return found == wholes_.end() ? at::Tensor() : found->second;
}

}  // namespace hooked
