#pragma once

#include <cstdint>
#include <vector>

#include "hooked/analysis/attribution_graph.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// How much of a graph is kept. For designated initialisers.
struct GraphPruning {
  double node_share = 0.8;   ///< of the influence on logits that the nodes that are kept have; 1: all nodes
  double edge_share = 0.98;  ///< of the influence that edges between them have; 1: all edges
};

/// The graph without what has little influence on its logits (Ameisen et al. 2025, as circuit-tracer does
/// it). The influence of a node is the sum over all paths from logits, each edge taken as its size divided by
/// the sum of sizes of all edges into its target. Kept are the fewest nodes of the largest influence that
/// have that share of it, and all tokens and logits; of the edges between them likewise; then features and
/// errors that lead nowhere, and features that nothing leads to, are dropped. Edges that are not kept are 0,
/// and GraphNode::influence is set. Throws HookError for shares that are not between 0 and 1.
AttributionGraph pruned(const AttributionGraph& graph, const GraphPruning& how = {});

/// How much of a model's computation a graph shows, both from 0 to 1.
struct GraphScores {
  double replacement;   ///< the influence of tokens, of that of tokens and errors
  double completeness;  ///< of what leads into nodes, weighted by their influence, what is no error
};

/// The scores of a graph. NaN if it has no edge.
GraphScores graph_scores(const AttributionGraph& graph);

/// A way through a graph.
struct GraphPath {
  std::vector<std::int64_t> nodes;  ///< from a token or an error, through features, to a logit
  /// The logit's weight times, for each edge, its size divided by the sum of sizes of all edges into its
  /// target: the part of all influence that comes this way.
  double influence;
};

/// The paths of the largest influence, at most `count`, the largest first. Takes time with the number of
/// edges times `count`: pruned graphs are meant.
std::vector<GraphPath> strongest_paths(const AttributionGraph& graph, std::int64_t count = 10);

}  // namespace hooked
