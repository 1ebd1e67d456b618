#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/gradients/circuit_parts.h"
#include "hooked/analysis/circuit.h"

namespace hooked {

/// A set of parts, by their numbers in the order of the model.
using PartSet = std::set<std::int64_t>;

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
  const std::vector<std::int64_t>& rows() const noexcept { return rows_; }

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
  std::vector<std::int64_t> rows_;
};

}  // namespace hooked
