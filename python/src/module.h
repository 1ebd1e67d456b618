#pragma once

#include <nanobind/nanobind.h>

// The parts of the module `hooked._hooked`, in the order in which they are bound: each after what it
// mentions.
namespace hooked::python {

void bind_errors(nanobind::module_& module);
void bind_names(nanobind::module_& module);          ///< axes, sites, names, addresses, selections, `act`
void bind_values(nanobind::module_& module);         ///< caches, hooks, edits
void bind_config(nanobind::module_& module);         ///< configs, processing, loading's options
void bind_text(nanobind::module_& module);           ///< tokenizers and chat
void bind_weights(nanobind::module_& module);        ///< weights by name, files of tensors
void bind_model(nanobind::module_& module);          ///< HookedTransformer and what its runs take and return
void bind_native_config(nanobind::module_& module);  ///< TransformerLens's form of configs

}  // namespace hooked::python
