#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/graphs/held_run.h"

namespace hooked {

/// The sources of a graph, which are the columns of its edges: active features (by layer, position and
/// number), errors (by layer and position), tokens.
class GraphSources {
 public:
  explicit GraphSources(const HeldRun& held);

  std::int64_t features() const { return offsets_.back(); }
  std::int64_t errors() const { return held_.coders().has_errors() ? held_.layers() * held_.length() : 0; }
  std::int64_t size() const { return features() + errors() + held_.length(); }
  const ActiveFeatures& of_layer(std::int64_t layer) const { return held_.active(layer); }
  std::int64_t offset(std::int64_t layer) const { return offsets_.at(static_cast<std::size_t>(layer)); }
  /// The layer of an active feature.
  std::int64_t layer_of(std::int64_t feature) const;
  /// What the reconstruction of an MLP misses, [pos, d_model], 0 at excluded positions.
  const at::Tensor& error(std::int64_t layer) const { return errors_.at(static_cast<std::size_t>(layer)); }
  const HeldRun& held() const { return held_; }

  /// Adds what the gradients [row, pos, d_model] at a layer's MLP (-1: at the embeddings) make of the sources
  /// that write there to `edges` [row, source]. Positions after `last` are not reached.
  void add(std::int64_t layer, const at::Tensor& gradient, std::int64_t last, at::Tensor& edges) const;

 private:
  /// Calls `use` with neighbouring features of a layer at one position, `first` the number of the first among
  /// the layer's, and what they write to `target`, [feature, d_model].
  template <typename Use>
  void for_each_position(std::int64_t source, std::int64_t target, const Use& use) const;

  const HeldRun& held_;
  std::vector<std::int64_t> offsets_;                 // of each layer's features, and their number
  std::vector<std::vector<std::int64_t>> positions_;  // [layer][pos]: features before the position, and all
  std::vector<at::Tensor> errors_;
  at::Tensor embedded_;
};

/// A target of a graph.
struct GraphTarget {
  ReadDirection reads;
  double bias = 0;  ///< that is added to what is read
  double preactivation = 0;
  double constant = 0;
};

/// A target by its node, without what only a linear run knows; nothing for a direction that is no token.
/// Throws ShapeError for a node that the run does not have.
std::optional<GraphTarget> target_of(const HeldRun& held, const GraphNode& node);

/// Computes edges.
class GraphRows {
 public:
  GraphRows(const GraphSources& sources, std::int64_t rows)
      : sources_(sources), linear_(sources.held(), rows) {}

  std::int64_t at_once() const { return linear_.rows(); }
  /// Of active features, by their numbers.
  std::vector<GraphTarget> features(const std::vector<std::int64_t>& numbers) const;
  /// Of directions at what the unembedding reads, [n, d_model], to each of which a bias [n] is added.
  std::vector<GraphTarget> directions(const at::Tensor& directions, const at::Tensor& biases) const;
  /// The edges into at most at_once() targets, [target, source], on the model's device.
  at::Tensor edges(const std::vector<GraphTarget>& targets) const;

 private:
  const GraphSources& sources_;
  LinearRun linear_;
};

}  // namespace hooked
