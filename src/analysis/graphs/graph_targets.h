#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "analysis/graphs/held_run.h"

namespace hooked {

/// The logits of a graph, and other directions at its end.
struct GraphLogits {
  std::vector<GraphNode> nodes;
  at::Tensor directions;  ///< [node, d_model] at what the unembedding reads, minus the mean of all logits'
  at::Tensor biases;      ///< [node], likewise
};

/// Those that options ask for. Throws ShapeError for tokens and directions that do not fit.
GraphLogits graph_logits(const HeldRun& held, const AttributionGraphOptions& options);

/// Throws ShapeError if a graph has tokens or features that this run has not: it is of another prompt, model
/// or set of transcoders. `where` is what asks.
void require_graph_of(const HeldRun& held, const AttributionGraph& graph, const char* where);

/// The text of each token of [1, pos]; without a tokenizer its number.
std::vector<std::string> token_texts(const HookedTransformer& model, const at::Tensor& tokens);

}  // namespace hooked
