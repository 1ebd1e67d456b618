#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/stream/stream_graph.h"
#include "hooked/analysis/circuit.h"

namespace hooked {

/// All edges that a model may have, by numbers on the axes of edge_attribution.
class EdgeSpace {
 public:
  explicit EdgeSpace(const HookedTransformer& model);

  const StreamGraph& graph() const noexcept { return graph_; }
  const std::vector<std::string>& writers() const noexcept { return graph_.writer_axis.labels; }
  const std::vector<std::string>& readers() const noexcept { return graph_.reader_axis.labels; }
  /// The writers that a reader feeds: a head, an MLP, the heads that share a key; none for the logits.
  const std::vector<std::int64_t>& owners(std::int64_t reader) const {
    return owners_[static_cast<std::size_t>(reader)];
  }
  bool is_behind(std::int64_t reader, std::int64_t writer) const;
  bool is_embedding(std::int64_t writer) const { return embeddings_.contains(writer); }

 private:
  StreamGraph graph_;
  std::set<std::int64_t> embeddings_;
  std::vector<std::vector<std::int64_t>> owners_;
};

/// A set of parts, by their numbers in the order of the model. A bit for each part of the model, as a large
/// model has tens of thousands of edges and a judgement hundreds of sets with nearly all of them.
class PartSet {
 public:
  /// The empty set of a model with that many parts.
  explicit PartSet(std::int64_t parts) : has_(static_cast<std::size_t>(parts)) {}
  void insert(std::int64_t part) { has_[static_cast<std::size_t>(part)] = true; }
  void erase(std::int64_t part) { has_[static_cast<std::size_t>(part)] = false; }
  /// The members, in ascending order.
  std::vector<std::int64_t> members() const;
  /// Everything that is not in this set.
  PartSet complement() const;
  /// What is in this set and not in `other`.
  PartSet minus(const PartSet& other) const;
  bool operator==(const PartSet&) const = default;

 private:
  std::vector<bool> has_;
};

/// Scores of runs in which only a set of parts is left.
struct SetScores {
  at::Tensor kept;   ///< [row, set] float64
  at::Tensor whole;  ///< [row] float64: with everything kept
  bool complete = true;
};

/// Runs of a model in which only some of its nodes, or of its edges, are left.
class KeptParts {
 public:
  /// Throws as run_circuits() says.
  KeptParts(const HookedTransformer& model, CircuitKind kind, const SweepOptions& sweep);

  /// The number of parts, and their names.
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(names_.size()); }
  const std::string& name(std::int64_t part) const { return names_[static_cast<std::size_t>(part)]; }
  /// The parts of a circuit of this kind.
  PartSet parts_of(const Circuit& circuit) const;
  /// Scores of these sets.
  SetScores scores(const std::vector<PartSet>& sets) const;
  std::int64_t rows() const noexcept { return n_rows_; }

 private:
  SetScores of_nodes(const std::vector<PartSet>& sets) const;
  SetScores of_edges(const std::vector<PartSet>& sets) const;

  const HookedTransformer& model_;
  CircuitKind kind_;
  SweepOptions sweep_;
  std::vector<std::string> names_;
  std::vector<ModelPart> nodes_;
  std::optional<EdgeSpace> space_;
  std::vector<std::pair<std::int64_t, std::int64_t>> edges_;  // writer and reader of each
  std::int64_t n_rows_ = 0;
};

}  // namespace hooked
