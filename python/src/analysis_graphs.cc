// Attribution graphs: made, pruned, kept in files, and checked by interventions.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

namespace {

void bind_graph_features(nb::module_& module) {
  nb::class_<GraphFeatures> features(module, "GraphFeatures", documentation("GraphFeatures"));
  features
      .def(
          "__init__",
          [](GraphFeatures* self, Like<GraphFeatures> transcoders) {
            new (self) GraphFeatures(transcoders.take());
          },
          nb::arg("transcoders"), documentation("GraphFeatures::GraphFeatures"))
      .def_static("neurons", &GraphFeatures::neurons, documentation("GraphFeatures::neurons"))
      .def_prop_ro("are_neurons", &GraphFeatures::are_neurons, documentation("GraphFeatures::are_neurons"))
      .def_prop_ro(
          "transcoders", [](const GraphFeatures& self) { return self.transcoders(); },
          documentation("GraphFeatures::transcoders"))
      .def("__repr__", [](const GraphFeatures& self) {
        return self.are_neurons()
                   ? std::string("GraphFeatures.neurons()")
                   : "GraphFeatures of " + std::to_string(self.transcoders().size()) + " transcoders";
      });
}

void bind_graph(nb::module_& module) {
  bind_enum<GraphNodeKind>(module);
  bind_struct<GraphNode>(module);
  bind_struct<GraphDirection>(module);
  bind_graph_features(module);
  nb::class_<AttributionGraph> graph(module, "AttributionGraph", documentation("AttributionGraph"));
  Fields<AttributionGraph>::visit([&](const auto& field) {
    graph.def_ro(field.name, field.member, documentation(std::string("AttributionGraph::") + field.name));
  });
  const auto place = [&](const char* name, auto function, auto... arguments) {
    graph.def(name, function, nb::arg(arguments)..., documentation(std::string("AttributionGraph::") + name));
  };
  place("row_of", &AttributionGraph::row_of, "node");
  place("column_of", &AttributionGraph::column_of, "node");
  place("target", &AttributionGraph::target, "row");
  place("edge", &AttributionGraph::edge, "source", "target");
  // All nodes and edges would be pages.
  graph.def("__repr__", [](const AttributionGraph& self) {
    return "AttributionGraph of " + std::to_string(self.features) + " features, " +
           std::to_string(self.errors) + " errors, " + std::to_string(self.tokens) + " tokens and " +
           std::to_string(self.logits) + " logits";
  });
  define(
      module, "attribute_graph", "attribute_graph",
      [](const HookedTransformer& model, Like<GraphFeatures> features, Like<ModelInput> input,
         AttributionGraphOptions options) {
        return attribute_graph(model, features.take(), input.take().of(model), options);
      },
      nb::arg("model"), nb::arg("features"), nb::arg("input"));
  module.def("node_name", &node_name, nb::arg("node"), documentation("node_name"));
}

void bind_pruning(nb::module_& module) {
  define(
      module, "pruned", "pruned",
      [](const AttributionGraph& graph, GraphPruning how) { return pruned(graph, how); }, nb::arg("graph"));
  bind_result<GraphScores>(module);
  define_plain(module, "graph_scores", "graph_scores", &graph_scores, nb::arg("graph"));
  bind_result<GraphPath>(module);
  define_plain(module, "strongest_paths", "strongest_paths", &strongest_paths, nb::arg("graph"),
               nb::arg("count") = 10);
}

void bind_links(nb::module_& module) {
  bind_struct<LinkedNode>(module);
  bind_struct<NodeLink>(module);
  bind_struct<NodeLinks>(module).def("_repr_svg_", &node_link_svg);
  define_plain(module, "node_link_svg", "node_link_svg", &node_link_svg, nb::arg("figure"));
  define_plain(
      module, "node_links", "node_links",
      [](const AttributionGraph& graph, std::int64_t most) { return node_links(graph, most); },
      nb::arg("graph"), nb::arg("most") = 300);
  define_plain(
      module, "node_links", "node_links",
      [](const Circuit& circuit, const Grid& scores) { return node_links(circuit, scores); },
      nb::arg("circuit"), nb::arg("scores"));
}

void bind_graph_files(nb::module_& module) {
  define(
      module, "graph_json", "graph_json",
      [](const AttributionGraph& graph, GraphFileOptions options) { return graph_json(graph, options); },
      nb::arg("graph"));
  define(
      module, "save_graph", "save_graph",
      [](const AttributionGraph& graph, const std::filesystem::path& file, Like<Overwrite> overwrite,
         GraphFileOptions options) { save_graph(graph, file, options, overwrite.take()); },
      nb::arg("graph"), nb::arg("file"), nb::kw_only(), nb::arg("overwrite") = "ours");
  module.def(
      "require_can_save_graph",
      [](const std::filesystem::path& file, Like<Overwrite> overwrite) {
        require_can_save_graph(file, overwrite.take());
      },
      nb::arg("file"), nb::arg("overwrite") = "ours", documentation("require_can_save_graph"));
  define_plain(
      module, "load_graph", "load_graph", [](const std::filesystem::path& file) { return load_graph(file); },
      nb::arg("file"));
}

void bind_interventions(nb::module_& module) {
  bind_struct<FeatureIntervention>(module);
  bind_enum<GraphHold>(module);
  bind_result<InterventionEffect>(module);
  bind_struct<GraphEdge>(module);
  define_plain(
      module, "intervene", "intervene",
      [](const HookedTransformer& model, Like<GraphFeatures> features, Like<ModelInput> input,
         const AttributionGraph& graph, Like<std::vector<FeatureIntervention>> changes,
         Like<GraphHold> hold) {
        return intervene(model, features.take(), input.take().of(model), graph, changes.take(), hold.take());
      },
      nb::arg("model"), nb::arg("features"), nb::arg("input"), nb::arg("graph"), nb::arg("changes"),
      nb::arg("hold") = "everything");
  define_plain(
      module, "edge_heads", "edge_heads",
      [](const HookedTransformer& model, Like<GraphFeatures> features, Like<ModelInput> input,
         const AttributionGraph& graph, Like<std::vector<GraphEdge>> edges) {
        return edge_heads(model, features.take(), input.take().of(model), graph, edges.take());
      },
      nb::arg("model"), nb::arg("features"), nb::arg("input"), nb::arg("graph"), nb::arg("edges"));
}

}  // namespace

void bind_analysis_graphs(nb::module_& module) {
  bind_graph(module);
  bind_links(module);
  bind_pruning(module);
  bind_graph_files(module);
  bind_interventions(module);
}

}  // namespace hooked::python
