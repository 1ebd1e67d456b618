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

namespace HOOKED_EXPORT hooked {

/// What one part reads of another, by the names on the axes of edge_attribution.
struct CircuitEdge {
  std::string writer;  ///< `head 0.1`, `mlp 0`, `embed`
  std::string reader;  ///< `head 1.3 q`, `mlp 1`, `logits`

  auto operator<=>(const CircuitEdge&) const = default;
};

/// What a circuit is a set of.
enum class CircuitKind : std::uint8_t {
  nodes,  ///< heads and MLPs; everything that they read and write of one another belongs to it
  edges,  ///< single readings
};

/// A part of a model that is thought to do something: a set of nodes or of edges. A value, which holds names
/// alone.
class Circuit {
 public:
  /// Of heads and MLPs, by the names of model_parts. Throws HookError for one that the model does not have,
  /// with the nearest.
  static Circuit of_nodes(const HookedTransformer& model, const std::vector<std::string>& nodes);
  /// Of edges. Throws HookError likewise, for a reader that is not behind the writer.
  static Circuit of_edges(const HookedTransformer& model, const std::vector<CircuitEdge>& edges);

  /// What it is a set of.
  CircuitKind kind() const noexcept { return kind_; }
  /// The nodes, in the order of the model, each once: of a circuit of edges the heads and MLPs on them.
  const std::vector<std::string>& nodes() const& noexcept { return nodes_; }
  /// The same of a temporary, as a copy.
  std::vector<std::string> nodes() const&& { return nodes_; }
  /// The edges, in the order of the model, each once; none of a circuit of nodes.
  const std::vector<CircuitEdge>& edges() const& noexcept { return edges_; }
  /// The same of a temporary, as a copy.
  std::vector<CircuitEdge> edges() const&& { return edges_; }
  /// How many nodes or edges there are.
  std::int64_t size() const noexcept;

  /// Without what is on no path: an edge stays where its writer is an embedding or reads through an edge that
  /// stays, and its reader is the logits' or writes through one that stays. A circuit of nodes is as it is,
  /// since all of them read the embeddings and write to the end of the stream.
  Circuit pruned(const HookedTransformer& model) const;

  /// Writes `file` (JSON), all of it or nothing. Throws IoError.
  void save(const std::filesystem::path& file) const;
  /// Reads what save() wrote. Throws IoError, and CheckpointError naming what is wrong in the file, nodes and
  /// edges that the model does not have among it.
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
  /// So many of the largest; with `greedy` edges are chosen one after the other, the largest that leads into
  /// what is chosen already, from the logits on (Hanna et al. 2024). Not set: by `threshold`.
  std::optional<std::int64_t> count = std::nullopt;
  std::optional<double> threshold = std::nullopt;  ///< all from this size on
  bool greedy = false;                             ///< see `count`
  bool by_size = true;  ///< whether negative scores count by their size, or not at all
};

/// The circuit of the parts with the largest scores, pruned: of a Grid [node] as node_attribution gives it,
/// or [writer, reader] as edge_attribution does (of several rows their mean). Throws ShapeError for a grid
/// with other axes, HookError for names that the model does not have and for a choice that says nothing or
/// too much.
Circuit choose_circuit(const HookedTransformer& model, const Grid& scores, const CircuitChoice& choice);

/// attribution_patching of every head and MLP of model_parts, summed over positions: a Grid [node]; `row` and
/// `metric` stand before. `sweep.site`, `over` and `table` stay empty. Throws as attribution_patching().
Grid node_attribution(const HookedTransformer& model, const AttributionPatchingOptions& options);

/// The same with a report, and exact sweeps of some nodes.
AttributionPatchingReport node_attribution_report(const HookedTransformer& model,
                                                  const AttributionPatchingOptions& options);

}  // namespace hooked
