#include "python/src/module.h"

#include "hooked/core/version.h"
#include "python/src/casters.h"

NB_MODULE(_hooked, module) {
  using namespace hooked::python;
  module.doc() = "Transformers with every activation named, hookable and cacheable: the engine.";
  module.attr("__version__") = std::string(hooked::version());
  bind_errors(module);
  bind_names(module);
  bind_values(module);
  bind_config(module);
  bind_text(module);
  bind_dictionaries(module);
  bind_files(module);
  bind_runs(module);
  bind_model(module);
  bind_weights(module);
  bind_analysis_grids(module);
  bind_analysis_places(module);
  bind_analysis_metrics(module);
  bind_analysis_patching(module);
  bind_analysis_gradients(module);
  bind_analysis_reading(module);
  bind_analysis_stream(module);
  bind_analysis_weights(module);
  bind_analysis_features(module);
  bind_analysis_graphs(module);
  bind_analysis_probes(module);
  bind_analysis_interchange(module);
  bind_harvest(module);
  bind_pages(module);
  bind_native_config(module);
}
