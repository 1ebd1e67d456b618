#pragma once

// Functions of a model, of a model and a cache, and their options.

#include "python/src/bind.h"

namespace hooked::python {

/// `function(model, options)` as `name(model, *, option=...)`.
template <typename Options, typename Result>
void of_model(nb::module_& module, const char* name,
              Result (*function)(const HookedTransformer&, const Options&)) {
  define(
      module, name, name,
      [function](const HookedTransformer& model, Options options) { return function(model, options); },
      nb::arg("model"));
}

/// `function(model, cache, options)` likewise.
template <typename Options, typename Result>
void of_cache(nb::module_& module, const char* name,
              Result (*function)(const HookedTransformer&, const ActivationCache&, const Options&)) {
  define(
      module, name, name,
      [function](const HookedTransformer& model, const ActivationCache& cache, Options options) {
        return function(model, cache, options);
      },
      nb::arg("model"), nb::arg("cache"));
}

/// `function(model, preset, options)` likewise.
template <typename Options, typename Result>
void of_preset(nb::module_& module, const char* name,
               Result (*function)(const HookedTransformer&, const PatchingPreset&, const Options&)) {
  define(
      module, name, name,
      [function](const HookedTransformer& model, Like<PatchingPreset> preset, Options options) {
        return function(model, preset.take(), options);
      },
      nb::arg("model"), nb::arg("preset"));
}

/// `function(model, nodes, options)` likewise.
template <typename Options, typename Result>
void of_nodes(nb::module_& module, const char* name,
              Result (*function)(const HookedTransformer&, const FeatureNodes&, const Options&)) {
  define(
      module, name, name,
      [function](const HookedTransformer& model, const FeatureNodes& nodes, Options options) {
        return function(model, nodes, options);
      },
      nb::arg("model"), nb::arg("nodes"));
}

}  // namespace hooked::python
