#pragma once

#include <string>
#include <string_view>

#include "hooked/analysis/graph_file.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"

namespace hooked {

/// What must hold for any bytes as the file of an attribution graph: they are refused with an Error, or the
/// graph is one, and what is written of it is read as the same. Returns whether they were accepted; throws
/// std::logic_error where this does not hold.
inline bool graph_property(std::string_view bytes) {
  const auto file = put("graph.json", bytes);
  return accepts([&] {
    const AttributionGraph graph = load_graph(file);
    hold(graph.features + graph.errors + graph.tokens + graph.logits == std::ssize(graph.nodes),
         "nodes of no kind");
    hold(graph.edges.size(0) == graph.features + graph.logits &&
             graph.edges.size(1) == graph.features + graph.errors + graph.tokens,
         "edges of other nodes");
    for (const GraphNode& node : graph.nodes)
      hold(node.pos >= 0 && node.pos < std::ssize(graph.prompt_tokens), "a node at no token");
    const std::string once = graph_json(graph, {});
    const AttributionGraph again = load_graph(put("again.json", once));
    hold(graph_json(again, {}) == once, "a graph that changes");
  });
}

}  // namespace hooked
