// What the features of dictionaries do.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

void bind_analysis_features(nb::module_& module) {
  bind_result<FiringFeature>(module);
  define(
      module, "firing_features", "firing_features",
      [](const ActivationCache& cache, Like<Address> features, FiringOptions options) {
        return firing_features(cache, features.take(), options);
      },
      nb::arg("cache"), nb::arg("features"));
  define_plain(
      module, "feature_logits", "feature_logits",
      [](const HookedTransformer& model, Like<Address> features, const std::vector<std::int64_t>& which) {
        return feature_logits(model, features.take(), which);
      },
      nb::arg("model"), nb::arg("features"), nb::arg("which"));
  bind_result<DictionaryQuality>(module);
  define_plain(
      module, "dictionary_quality", "dictionary_quality",
      [](const HookedTransformer& model, Like<Address> features, Like<ModelInput> input,
         Given<ProgressFunction> progress) {
        ProgressFunction shown;
        put_progress(shown);
        progress.put(shown);
        return dictionary_quality(model, features.take(), input.take().of(model), shown);
      },
      nb::arg("model"), nb::arg("features"), nb::arg("input"), nb::kw_only(),
      nb::arg("progress") = nb::none());
}

}  // namespace hooked::python
