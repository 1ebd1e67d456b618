#pragma once

#include <cstdint>

#include "hooked/analysis/attribution_graph.h"
#include "hooked/analysis/node_links.h"
#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A graph as a picture shows it (node_link_svg): its strongest edges, at most `most`, and the nodes that
/// they link; tokens and logits are all there. Rows are the tokens, the layers and the logits, columns the
/// tokens of the prompt. Pruned graphs are meant: a whole one is more than one can look at.
NodeLinks node_links(const AttributionGraph& graph, std::int64_t most = 300);

}  // namespace hooked
