// Edges of graphs, split by the heads that carry them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "analysis/graphs/graph_rows.h"
#include "analysis/graphs/graph_targets.h"
#include "hooked/analysis/graph_interventions.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kEdgeHeads = "heads of a graph's edges";

/// The number among all sources of a source of a graph that this run has.
std::int64_t number_of(const GraphSources& sources, const AttributionGraph& graph, std::int64_t column) {
  const GraphNode& node = graph.nodes[static_cast<std::size_t>(column)];
  if (node.kind == GraphNodeKind::token) return sources.features() + sources.errors() + node.pos;
  if (node.kind == GraphNodeKind::error && sources.errors() > 0 && node.layer < sources.held().layers())
    return sources.features() + node.layer * sources.held().length() + node.pos;
  if (node.kind == GraphNodeKind::feature && node.layer < sources.held().layers()) {
    const ActiveFeatures& active = sources.of_layer(node.layer);
    const at::Tensor found = active.pos.eq(node.pos).logical_and(active.features.eq(node.id)).nonzero();
    if (found.size(0) == 1) return sources.offset(node.layer) + found.item<std::int64_t>();
  }
  throw ShapeError(
      kEdgeHeads,
      fmt::format("{} is not in this run; expected the graph of this prompt and model", node_name(node)));
}

}  // namespace

Grid edge_heads(const HookedTransformer& model, const GraphFeatures& features, const Input& input,
                const AttributionGraph& graph, const std::vector<GraphEdge>& edges) {
  const std::unique_ptr<GraphCoders> coders = graph_coders(model, features);
  const HeldRun held(model, *coders, graph_input(model, input, kEdgeHeads), graph.excluded_positions);
  require_graph_of(held, graph, kEdgeHeads);
  const GraphSources sources(held);
  const std::int64_t layers = held.layers();
  std::int64_t heads = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (model.config().attends(layer)) heads = std::max(heads, model.config().n_heads);
  }
  const LinearRun linear(held, heads + 1, /*by_heads=*/true);
  at::Tensor values = at::zeros({std::ssize(edges), layers, heads + 1}, at::kDouble);
  std::vector<GridAxis> axes{
      {.name = "edge", .labels = {}}, {.name = "layer", .labels = {}}, {.name = "part", .labels = {}}};
  for (std::int64_t layer = 0; layer < layers; ++layer) axes[1].labels.push_back(std::to_string(layer));
  for (std::int64_t head = 0; head < heads; ++head) axes[2].labels.push_back(fmt::format("head {}", head));
  axes[2].labels.emplace_back("bypass");
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const std::int64_t source = number_of(sources, graph, graph.column_of(edges[i].source));
    const GraphNode& node =
        graph.nodes[static_cast<std::size_t>(graph.target(graph.row_of(edges[i].target)))];
    axes[0].labels.push_back(fmt::format(
        "{} to {}", node_name(graph.nodes[static_cast<std::size_t>(edges[i].source)]), node_name(node)));
    const std::optional<GraphTarget> target = target_of(held, node);
    if (!target) throw ShapeError(kEdgeHeads, fmt::format("{} is no token; expected one", node_name(node)));
    const std::vector<ReadDirection> directions(static_cast<std::size_t>(heads + 1), target->reads);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      // One head in each row passes gradients on, in the last none.
      std::optional<LinearRun::HeadsOf> pass;
      if (model.config().attends(layer)) pass = {layer, at::eye(heads + 1, heads, at::kFloat)};
      at::Tensor found = at::zeros({heads + 1, sources.size()}, target->reads.direction.options());
      linear.back(
          directions,
          [&](std::int64_t at, const at::Tensor& gradient) {
            if (at < target->reads.layer) sources.add(at, gradient, target->reads.pos, found);
          },
          pass);
      const at::Tensor carried = found.select(1, source).to(at::kCPU, at::kDouble);
      at::Tensor parts = values[static_cast<std::int64_t>(i)][layer];
      parts.copy_(carried);
      if (pass) parts.slice(0, 0, heads) -= carried[heads];
      if (!pass) parts.slice(0, 0, heads).zero_();
    }
  }
  return Grid(values, axes, {.title = "Edges by the heads that carry them", .unit = "edge"});
}

}  // namespace hooked
