#include "hooked/analysis/graph_links.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "hooked/analysis/graph_interventions.h"

namespace hooked {
namespace {

std::string node_text(const GraphNode& node) {
  switch (node.kind) {
    case GraphNodeKind::feature:
      return std::to_string(node.id);
    case GraphNodeKind::error:
      return "error";
    case GraphNodeKind::token:
    case GraphNodeKind::logit:
      break;
  }
  return node.text;
}

std::string says_of(const GraphNode& node) {
  std::string says = node_name(node);
  if (!node.text.empty()) says += fmt::format(" '{}'", node.text);
  if (node.kind == GraphNodeKind::feature) says += fmt::format(", active by {:.4g}", node.value);
  if (node.kind == GraphNodeKind::logit) says += fmt::format(", probability {:.4g}", node.value);
  return says;
}

/// The row of a node: tokens, layers, logits.
std::int64_t figure_row(const GraphNode& node, std::int64_t layers) {
  if (node.kind == GraphNodeKind::token) return 0;
  return node.kind == GraphNodeKind::logit ? layers + 1 : node.layer + 1;
}

}  // namespace

NodeLinks node_links(const AttributionGraph& graph, std::int64_t most) {
  struct Edge {
    std::int64_t source, target;
    double weight;
  };
  std::vector<Edge> edges;
  const at::Tensor places = graph.edges.nonzero();
  const at::Tensor weights = graph.edges.to(at::kDouble).contiguous();
  const auto* weight = weights.const_data_ptr<double>();
  const at::Tensor held = places.contiguous();
  const auto* place = held.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < held.size(0); ++i) {
    const std::int64_t row = place[2 * i], column = place[2 * i + 1];
    edges.push_back({column, graph.target(row), weight[row * graph.edges.size(1) + column]});
  }
  std::ranges::stable_sort(edges, std::greater<>(), [](const Edge& edge) { return std::abs(edge.weight); });
  const auto all = std::ssize(edges);
  edges.resize(static_cast<std::size_t>(std::min<std::int64_t>(std::max<std::int64_t>(most, 0), all)));
  std::vector<bool> shown(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNodeKind kind = graph.nodes[i].kind;
    shown[i] = kind == GraphNodeKind::token || kind == GraphNodeKind::logit;
  }
  for (const Edge& edge : edges) {
    shown[static_cast<std::size_t>(edge.source)] = true;
    shown[static_cast<std::size_t>(edge.target)] = true;
  }
  NodeLinks figure{
      .title = std::ssize(edges) < all
                   ? fmt::format("Attribution graph: the {} strongest of {} edges", edges.size(), all)
                   : fmt::format("Attribution graph: {} edges", all),
      .unit = "effect on the target's pre-activation",
      .column_name = "token",
      .rows = {"tokens"}};
  for (std::int64_t layer = 0; layer < graph.layers; ++layer)
    figure.rows.push_back(fmt::format("layer {}", layer));
  figure.rows.emplace_back("logits");
  std::int64_t columns = std::ssize(graph.prompt_tokens);
  for (const GraphNode& node : graph.nodes) columns = std::max(columns, node.pos + 1);
  for (std::int64_t column = 0; column < columns; ++column) figure.columns.push_back(std::to_string(column));
  std::vector<std::int64_t> number(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!shown[i]) continue;
    const GraphNode& node = graph.nodes[i];
    number[i] = std::ssize(figure.nodes);
    figure.nodes.push_back({.text = node_text(node),
                            .says = says_of(node),
                            .row = figure_row(node, graph.layers),
                            .column = node.pos,
                            .faint = node.kind == GraphNodeKind::error});
  }
  for (const Edge& edge : edges)
    figure.links.push_back({.source = number[static_cast<std::size_t>(edge.source)],
                            .target = number[static_cast<std::size_t>(edge.target)],
                            .weight = edge.weight});
  return figure;
}

}  // namespace hooked
