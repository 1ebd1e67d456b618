#pragma once

#include "hooked/analysis/circuit.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/node_links.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A circuit of edges as a picture shows it (node_link_svg). Rows are the embeddings, the heads and the MLP
/// of each layer, and the logits; columns the numbers of heads. A head's queries, keys and values are one
/// node. `scores` [writer, reader], as from edge_attribution, are the weights; edges into several inputs of a
/// head are added up. Throws HookError for a circuit of nodes, ShapeError for scores that lack an edge.
NodeLinks node_links(const Circuit& circuit, const Grid& scores);

}  // namespace hooked
