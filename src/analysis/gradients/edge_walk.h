#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "analysis/stream/stream_graph.h"

namespace hooked {

/// How edges are computed from a run and its gradients.
struct EdgeRun {
  const HookedTransformer& model;
  const StreamGraph& graph;
  const Input& input;
  const ActivationCache& values;
  const ActivationCache& gradients;
  bool norms_held;
  bool by_position;
};

/// The edges [row, writer, reader] or [row, writer, reader, pos] (with two streams the columns of the longer
/// one), float64 on the CPU. `deltas` are the changes of the writers' activations, [row, pos, ...] for each
/// writer of the graph.
at::Tensor edges_of(const EdgeRun& run, const std::vector<at::Tensor>& deltas);

}  // namespace hooked
