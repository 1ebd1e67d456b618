// Weights by name, and files of tensors.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

void bind_weights(nb::module_&) {}

}  // namespace hooked::python
