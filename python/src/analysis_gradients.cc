// Estimates by gradients, and circuits of nodes and edges.
#include "python/src/analysis.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_estimates(nb::module_& module) {
  bind_enum<IntegrateOver>(module);
  bind_enum<StepRule>(module);
  bind_struct<HeldInGradient>(module);
  bind_struct<Integration>(module);
  bind_struct<AttributionPatchingOptions>(module);
  bind_result<CheckedCell>(module);
  bind_result<AttributionCheck>(module);
  bind_result<AttributionPatchingReport>(module);
  using Options = AttributionPatchingOptions;
  using Report = AttributionPatchingReport;
  of_model<Options, Grid>(module, "attribution_patching", &attribution_patching);
  of_preset<Options, Grid>(module, "attribution_patching", &attribution_patching);
  of_model<Options, Report>(module, "attribution_patching_report", &attribution_patching_report);
  of_preset<Options, Report>(module, "attribution_patching_report", &attribution_patching_report);
  bind_struct<FeatureNodes>(module);
  of_nodes<Options, Grid>(module, "attribution_patching", &attribution_patching);
  of_nodes<Options, Report>(module, "attribution_patching_report", &attribution_patching_report);
  of_nodes<SweepOptions, Grid>(module, "sweep", &sweep);
  of_nodes<SweepOptions, SweepReport>(module, "sweep_report", &sweep_report);
  of_model(module, "edge_attribution", &edge_attribution);
  of_model(module, "edge_attribution_report", &edge_attribution_report);
  of_model(module, "node_attribution", &node_attribution);
  of_model(module, "node_attribution_report", &node_attribution_report);
}

void bind_circuit(nb::module_& module) {
  bind_struct<CircuitEdge>(module);
  bind_enum<CircuitKind>(module);
  nb::class_<Circuit> circuit(module, "Circuit", documentation("Circuit"));
  circuit
      .def_static("of_nodes", &Circuit::of_nodes, nb::arg("model"), nb::arg("nodes"),
                  documentation("Circuit::of_nodes"))
      .def_static("of_cells", &Circuit::of_cells, nb::arg("model"), nb::arg("cells"),
                  documentation("Circuit::of_cells"))
      .def_static(
          "of_edges",
          [](const HookedTransformer& model, Like<std::vector<CircuitEdge>> edges) {
            return Circuit::of_edges(model, edges.take());
          },
          nb::arg("model"), nb::arg("edges"), documentation("Circuit::of_edges"))
      .def_prop_ro("kind", &Circuit::kind, documentation("Circuit::kind"))
      .def_prop_ro(
          "nodes", [](const Circuit& self) { return self.nodes(); }, documentation("Circuit::nodes"))
      .def_prop_ro(
          "edges", [](const Circuit& self) { return self.edges(); }, documentation("Circuit::edges"))
      .def_prop_ro("size", &Circuit::size, documentation("Circuit::size"))
      .def("__len__", &Circuit::size)
      .def("places", &Circuit::places, nb::arg("model"), documentation("Circuit::places"))
      .def("pruned", &Circuit::pruned, nb::arg("model"), documentation("Circuit::pruned"))
      .def(
          "save",
          [](const Circuit& self, const std::filesystem::path& file, Like<Overwrite> overwrite) {
            self.save(file, overwrite.take());
          },
          nb::arg("file"), nb::arg("overwrite") = "ours", ReleaseGil(), documentation("Circuit::save"))
      .def_static(
          "require_can_save",
          [](const std::filesystem::path& file, Like<Overwrite> overwrite) {
            Circuit::require_can_save(file, overwrite.take());
          },
          nb::arg("file"), nb::arg("overwrite") = "ours", documentation("Circuit::require_can_save"))
      .def_static("load", &Circuit::load, nb::arg("model"), nb::arg("file"), ReleaseGil(),
                  documentation("Circuit::load"))
      .def("__eq__", [](const Circuit& self, const Circuit& other) { return self == other; })
      .def(
          "__eq__", [](const Circuit&, nb::handle) { return false; }, nb::arg().none())
      .def("__repr__", [](const Circuit& self) {
        const bool of_nodes = self.kind() == CircuitKind::nodes;
        std::string text;
        const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
        if (of_nodes)
          for (const std::string& node : self.nodes()) add(node);
        else
          for (const CircuitEdge& edge : self.edges()) add(edge.writer + " > " + edge.reader);
        return "Circuit(" + text + ")";
      });
  define(
      module, "choose_circuit", "choose_circuit",
      [](const HookedTransformer& model, const Grid& scores, CircuitChoice choice) {
        return choose_circuit(model, scores, choice);
      },
      nb::arg("model"), nb::arg("scores"));
}

void bind_judgement(nb::module_& module) {
  bind_result<CircuitJudgement>(module);
  define(
      module, "run_circuits", "run_circuits",
      [](const HookedTransformer& model, const std::vector<Circuit>& circuits, SweepOptions sweep) {
        return run_circuits(model, circuits, sweep);
      },
      nb::arg("model"), nb::arg("circuits"));
  define(
      module, "judge_circuit", "judge_circuit",
      [](const HookedTransformer& model, const Circuit& circuit, CircuitJudgementOptions options) {
        return judge_circuit(model, circuit, options);
      },
      nb::arg("model"), nb::arg("circuit"));
}

}  // namespace

void bind_analysis_gradients(nb::module_& module) {
  bind_estimates(module);
  bind_circuit(module);
  bind_judgement(module);
}

}  // namespace hooked::python
