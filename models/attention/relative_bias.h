#pragma once

#include "models/graph/graph.h"
#include "models/sequence/sequence.h"

namespace hooked {

/// Relative positions of a stack (Raffel et al. 2020, section 2.1), or of one block: a bias for scores by the
/// distance of query and key.
class RelativeBias {
 public:
  /// Registers its weight and its point in `owner`, the attention of the stack's first block or of its own.
  RelativeBias(torch::nn::Module& owner, const GraphContext& context);

  /// Zero for keys after the query if attention is causal.
  ScoreBias forward(const Sequence& sequence, Watch& watch) const;

  c10::Device device() const { return weight_.device(); }

  WeightSlots slots(const std::string& path) const;

 private:
  const ModelConfig& config_;
  Stack stack_;
  at::Tensor weight_;  // [bucket, head]
  Point hook_;
};

/// The bucket of each distance `key position - query position`. In bidirectional attention keys after the
/// query have the upper half, else they share the first bucket with distance 0. int64 in and out.
at::Tensor relative_buckets(const at::Tensor& distances, const RelativePositions& config, bool bidirectional);

}  // namespace hooked
