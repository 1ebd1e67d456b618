#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooked/analysis/attribution_graph.h"
#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A feature that gets another value at a position.
struct FeatureIntervention {
  std::int64_t layer;    ///< of the feature
  std::int64_t pos;      ///< the column
  std::int64_t feature;  ///< its number in the layer
  double value;          ///< instead of its activation
};

/// What stays as it was while features are changed.
enum class GraphHold : std::uint8_t {
  everything,  ///< patterns, norms' scales, and MLPs except what features are changed by: edges predict this
  patterns,    ///< only attention patterns
  nothing,     ///< the model computes on
};

/// What features that are changed do.
struct InterventionEffect {
  /// [target, unchanged or changed] of the graph's targets: their pre-activations; logits minus the mean of
  /// all (before any soft cap). NaN for directions that are no token.
  Grid preactivations;
  at::Tensor logits;  ///< [vocab] at the last position
};

/// Changes features in a run of the graph's prompt: at the output of its MLP, each adds (value - activation)
/// times what it writes; features that cross layers at all of these. With GraphHold::everything, a target's
/// pre-activation changes by the sum of edge · (value - activation) / activation over the features, to
/// rounding. Else features after them read what the model computes, and `activation` is that of this run.
/// Throws as attribute_graph(), and ShapeError for features and positions that the model does not have.
InterventionEffect intervene(const HookedTransformer& model, const GraphFeatures& features,
                             const Input& input, const AttributionGraph& graph,
                             const std::vector<FeatureIntervention>& changes,
                             GraphHold hold = GraphHold::everything);

/// An edge of a graph, by its nodes.
struct GraphEdge {
  std::int64_t source;  ///< a feature, error or token
  std::int64_t target;  ///< a feature or logit
};

/// Edges split by what carries them past the attention of each layer: a Grid [edge, layer, part], with a part
/// for each head and `bypass`, for what passes the layer's attention by. The parts of an edge add up to it in
/// each layer; where a layer has no attention, all of it is `bypass`. Throws as attribute_graph(), and
/// ShapeError for nodes that are no source or target, and for directions that are no token.
Grid edge_heads(const HookedTransformer& model, const GraphFeatures& features, const Input& input,
                const AttributionGraph& graph, const std::vector<GraphEdge>& edges);

/// The name of a node: `feature 3.1024 @5` (layer, number, column), `error 3 @5`, `token @5`, `logit 42`.
std::string node_name(const GraphNode& node);

}  // namespace hooked
