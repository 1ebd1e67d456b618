#pragma once

#include <nanobind/nanobind.h>

// The parts of the module `hooked._hooked`, in the order in which they are bound: each after what it
// mentions.
namespace hooked::python {

void bind_errors(nanobind::module_& module);
void bind_names(nanobind::module_& module);    ///< axes, sites, names, addresses, selections, `act`
void bind_values(nanobind::module_& module);   ///< caches, hooks, edits
void bind_config(nanobind::module_& module);   ///< configs, processing, loading's options
void bind_text(nanobind::module_& module);     ///< tokenizers and chat
void bind_files(nanobind::module_& module);    ///< model folders, the hub cache, files of tensors
void bind_runs(nanobind::module_& module);     ///< what runs take and return
void bind_model(nanobind::module_& module);    ///< HookedTransformer
void bind_weights(nanobind::module_& module);  ///< weights by name, models that are trained

}  // namespace hooked::python
