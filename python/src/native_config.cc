// TransformerLens's form of a config, which native folders have, for hooked.transformer_lens.
#include "families/shared/native_config.h"

#include "io/files/short_names.h"
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

void bind_native_config(nb::module_& module) {
  module.def(
      "_read_native_config",
      [](const std::string& text, const std::string& where) {
        return read_native_config(text, where).config;
      },
      nb::arg("text"), nb::arg("where"));
  module.def(
      "_native_config", [](const HookedTransformer& model) { return write_native_config(model.config()); },
      nb::arg("model"));
  module.def(
      "_repository_of",
      [](const std::string& name) -> std::optional<std::string> {
        const auto given = parse_hub_name(name);
        const auto found = given ? whole_name(*given) : std::nullopt;
        return found ? std::optional(found->id()) : std::nullopt;
      },
      nb::arg("name"));
}

}  // namespace hooked::python
