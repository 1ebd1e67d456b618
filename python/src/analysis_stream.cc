// What the stream is made of: its parts, attribution, norms and paths.
#include "python/src/analysis.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_stream_parts(nb::module_& module) {
  bind_enum<Grain>(module);
  bind_enum<ValueBiases>(module);
  bind_enum<NormScale>(module);
  bind_struct<ReadingNorm>(module);
  of_cache(module, "residual_parts", &residual_parts);
  of_cache(module, "accumulated_residual", &accumulated_residual);
  define(
      module, "normed_stack", "normed_stack",
      [](const HookedTransformer& model, const ActivationCache& cache, const Grid& stack,
         NormStackOptions options) { return normed_stack(model, cache, stack, options); },
      nb::arg("model"), nb::arg("cache"), nb::arg("stack"));
}

void bind_attribution(nb::module_& module) {
  of_cache<AttributionOptions, Grid>(module, "direct_logit_attribution", &direct_logit_attribution);
  define(
      module, "direct_logit_attribution", "direct_logit_attribution",
      [](const HookedTransformer& model, const ActivationCache& cache, const Grid& stack,
         AttributionOptions options) { return direct_logit_attribution(model, cache, stack, options); },
      nb::arg("model"), nb::arg("cache"), nb::arg("stack"));
  of_cache(module, "source_attribution", &source_attribution);
  of_cache(module, "score_attribution", &score_attribution);
}

void bind_norms(nb::module_& module) {
  bind_result<NormedLogit>(module);
  bind_result<NormShares>(module);
  bind_result<LeaveOneOut>(module);
  of_cache(module, "normed_logit", &normed_logit);
  of_cache(module, "norm_shares", &norm_shares);
  of_cache(module, "leave_one_out", &leave_one_out);
  of_cache(module, "unnormed_reading", &unnormed_reading);
}

void bind_paths(nb::module_& module) {
  of_cache(module, "path_expansion", &path_expansion);
  define(
      module, "path_logits", "path_logits",
      [](const HookedTransformer& model, const ActivationCache& cache, Like<std::vector<HeadPlace>> path,
         PathLogitsOptions options) { return path_logits(model, cache, path.take(), options); },
      nb::arg("model"), nb::arg("cache"), nb::arg("path"));
}

}  // namespace

void bind_analysis_stream(nb::module_& module) {
  bind_stream_parts(module);
  bind_attribution(module);
  bind_norms(module);
  bind_paths(module);
}

}  // namespace hooked::python
