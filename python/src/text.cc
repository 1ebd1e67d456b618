// Tokenizers, chat templates and texts.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

void bind_text(nb::module_&) {}

}  // namespace hooked::python
