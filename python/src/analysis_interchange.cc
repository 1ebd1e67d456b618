// Interchange interventions and the search for subspaces.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

void bind_analysis_interchange(nb::module_& module) {
  bind_struct<InterchangePairs>(module);
  bind_struct<Subspace>(module)
      .def("projection", &Subspace::projection, documentation("Subspace::projection"))
      .def("distance", &Subspace::distance, nb::arg("other"), documentation("Subspace::distance"));
  module.def(
      "interchange",
      [](const HookedTransformer& model, Like<Subspace> subspace, const at::Tensor& source,
         Like<ModelInput> base, Like<std::vector<Position>> positions) {
        return interchange(model, subspace.take(), source, base.take().of(model), positions.take());
      },
      nb::arg("model"), nb::arg("subspace"), nb::arg("source"), nb::arg("base"),
      nb::arg("positions") = nb::make_tuple("last"), documentation("interchange"));
  bind_result<InterchangeReport>(module);
  define_plain(
      module, "judge_interchange", "judge_interchange",
      [](const HookedTransformer& model, Like<InterchangePairs> pairs, Like<Subspace> subspace) {
        return judge_interchange(model, pairs.take(), subspace.take());
      },
      nb::arg("model"), nb::arg("pairs"), nb::arg("subspace"));
  bind_result<Alignment>(module);
  define(
      module, "align_subspace", "align_subspace",
      [](const HookedTransformer& model, Like<InterchangePairs> pairs, AlignmentOptions options) {
        return align_subspace(model, pairs.take(), options);
      },
      nb::arg("model"), nb::arg("pairs"));
}

}  // namespace hooked::python
