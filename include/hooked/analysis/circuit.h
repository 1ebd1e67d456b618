#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/ablation.h"
#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/overwrite.h"

namespace HOOKED_EXPORT hooked {

/// What one part reads from another, by the names on the axes of edge_attribution.
struct CircuitEdge {
  std::string writer;  ///< `head 0.1`, `mlp 0`, `embed`
  std::string reader;  ///< `head 1.3 q`, `mlp 1`, `logits`

  auto operator<=>(const CircuitEdge&) const = default;
};

/// What a circuit consists of.
enum class CircuitKind : std::uint8_t {
  nodes,  ///< heads and MLPs; everything that they read from and write to one another belongs to it
  edges,  ///< single connections from a writer to a reader
};

/// A part of a model that is thought to do something: a set of nodes or of edges. A value; it holds only
/// names.
class Circuit {
 public:
  /// A circuit of heads and MLPs, by the names of model_parts. Throws HookError for a name that the model
  /// does not have, and suggests the nearest.
  static Circuit of_nodes(const HookedTransformer& model, const std::vector<std::string>& nodes);
  /// A circuit of the heads and MLPs that cells of a grid are about: the largest of a sweep over heads, of
  /// node_attribution, of an attribution by head, of head_scores. A head is told by any of its activations,
  /// all heads of a layer by one without a head, an MLP by mlp_out. Throws HookError for a cell that is not
  /// about a node, or only about a part of one.
  ///
  ///     Circuit::of_cells(model, change.largest(4, LargestBy::size))
  static Circuit of_cells(const HookedTransformer& model, const std::vector<GridCell>& cells);
  /// A circuit of edges. Throws HookError likewise, and for a reader that does not come after the writer.
  static Circuit of_edges(const HookedTransformer& model, const std::vector<CircuitEdge>& edges);

  /// Whether it consists of nodes or edges.
  CircuitKind kind() const noexcept { return kind_; }
  /// The nodes, in the order of the model, each once; for a circuit of edges, the heads and MLPs on them.
  const std::vector<std::string>& nodes() const& noexcept { return nodes_; }
  /// The same of a temporary, as a copy.
  std::vector<std::string> nodes() const&& { return nodes_; }
  /// What its nodes write with, as ablate() and edits take it: `.sets = {circuit.places(model)}`. Throws
  /// HookError for a circuit of another model.
  std::vector<Address> places(const HookedTransformer& model) const;
  /// The edges, in the order of the model, each once; empty for a circuit of nodes.
  const std::vector<CircuitEdge>& edges() const& noexcept { return edges_; }
  /// The same of a temporary, as a copy.
  std::vector<CircuitEdge> edges() const&& { return edges_; }
  /// The number of nodes or edges.
  std::int64_t size() const noexcept;

  /// Without what is on no path: an edge stays if its writer is an embedding or reads through an edge that
  /// stays, and its reader is the logits or writes through one that stays. A circuit of nodes does not
  /// change, since all nodes read the embeddings and write to the end of the stream.
  Circuit pruned(const HookedTransformer& model) const;

  /// Writes `file` (a name ending in `.json`), all of it or nothing. Throws IoError, also for an existing
  /// file that `overwrite` does not allow to replace.
  void save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours) const;
  /// Throws what saving a circuit as `file` would throw about the file: for a check before long work.
  static void require_can_save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours);
  /// Reads what save() wrote. Throws IoError, and CheckpointError naming what is wrong in the file, including
  /// nodes and edges that the model does not have.
  static Circuit load(const HookedTransformer& model, const std::filesystem::path& file);

  bool operator==(const Circuit&) const = default;

 private:
  Circuit() = default;

  CircuitKind kind_ = CircuitKind::nodes;
  std::vector<std::string> nodes_;
  std::vector<CircuitEdge> edges_;
};

/// How parts are chosen by their scores. For designated initialisers.
struct CircuitChoice {
  /// The number of largest scores to take. With `greedy`, edges are added one at a time: the largest that
  /// leads into a part already chosen, starting from the logits (Hanna et al. 2024). Not set: by `threshold`.
  std::optional<std::int64_t> count = std::nullopt;
  std::optional<double> threshold = std::nullopt;  ///< takes all of at least this size
  bool greedy = false;                             ///< see `count`
  bool by_size = true;  ///< whether negative scores count by their size, or not at all
};

/// The circuit of the parts with the largest scores, pruned. `scores` is a Grid [writer, reader] as from
/// edge_attribution, or any grid with a number for each node: [node] as from node_attribution, [layer, head],
/// [part] (cells that are about no node, such as biases, are left out). Several rows are averaged. Throws
/// ShapeError for a grid of which no cell is about a node, HookError for names that the model does not have,
/// for cells that are only about a part of a node, and for a choice that specifies nothing or too much.
Circuit choose_circuit(const HookedTransformer& model, const Grid& scores, const CircuitChoice& choice);

/// attribution_patching of every head and MLP of model_parts, summed over positions: a Grid [node], preceded
/// by `row` and `metric`. `sweep.site`, `over` and `table` stay empty. Throws as attribution_patching().
Grid node_attribution(const HookedTransformer& model, const AttributionPatchingOptions& options);

/// The same with a report, and exact sweeps of some nodes.
AttributionPatchingReport node_attribution_report(const HookedTransformer& model,
                                                  const AttributionPatchingOptions& options);

}  // namespace hooked
