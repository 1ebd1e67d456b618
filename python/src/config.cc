// Configs, the processing of weights, and how models are loaded.
#include <nanobind/operators.h>

#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

void bind_config(nb::module_& module) {
  bind_enum<NormKind>(module);
  bind_enum<NormPlace>(module);
  bind_enum<BlockLayout>(module);
  bind_enum<MlpKind>(module);
  bind_enum<AttentionDirection>(module);
  bind_enum<InitMode>(module);
  bind_enum<ProcessingStep>(module);
  nb::class_<WeightProcessing>(module, "WeightProcessing", documentation("WeightProcessing"))
      .def(nb::init<>())
      .def_static("all_that_apply", &WeightProcessing::all_that_apply,
                  documentation("WeightProcessing::all_that_apply"))
      .def_static("none", &WeightProcessing::none, documentation("WeightProcessing::none"))
      .def_static(
          "only",
          [](Like<std::vector<ProcessingStep>> steps) { return WeightProcessing::only(steps.take()); },
          nb::arg("steps"), documentation("WeightProcessing::only"))
      .def(
          "wants",
          [](const WeightProcessing& self, Like<ProcessingStep> step) { return self.wants(step.take()); },
          nb::arg("step"), documentation("WeightProcessing::wants"));
  bind_result<StepReport>(module);
}

}  // namespace hooked::python
