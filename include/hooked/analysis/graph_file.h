#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hooked/analysis/attribution_graph.h"
#include "hooked/core/export.h"
#include "hooked/io/overwrite.h"

namespace HOOKED_EXPORT hooked {

/// What the file of a graph says besides the graph. For designated initialisers.
struct GraphFileOptions {
  std::string slug = {};                      ///< the graph's name; empty: the file's without `.json`
  std::string scan = {};                      ///< which features these are, for web pages that show them
  std::vector<std::string> transcoders = {};  ///< where the transcoders come from
  double node_share = 0.8;                    ///< of the pruning
  double edge_share = 0.98;                   ///< of the pruning
  bool add_to_list = true;  ///< also put the graph into `graph-metadata.json` next to the file
};

/// A graph, which should be pruned, in the JSON that circuit-tracer's page and Neuronpedia read. Nodes
/// without an edge are left out, except tokens and logits. Error nodes have the ids of circuit-tracer since
/// July 2026, which no feature has. Throws ConfigError for an edge that is not finite.
std::string graph_json(const AttributionGraph& graph, const GraphFileOptions& options);

/// Writes graph_json() as `file`, a name ending in `.json`, all of it or nothing. Throws as graph_json(), and
/// IoError, also for an existing file that `overwrite` does not allow to replace, and for a list next to it
/// that is not a list of graphs.
void save_graph(const AttributionGraph& graph, const std::filesystem::path& file,
                const GraphFileOptions& options = {}, Overwrite overwrite = Overwrite::ours);

/// Throws what saving a graph as `file` would throw about the file: for a check before long work.
void require_can_save_graph(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours);

/// Reads such a file, also one that circuit-tracer wrote, with old or new ids of errors. Throws IoError, and
/// CheckpointError naming what is wrong in the file, including links from an id that two nodes have, as the
/// old ids allow.
AttributionGraph load_graph(const std::filesystem::path& file);

}  // namespace hooked
