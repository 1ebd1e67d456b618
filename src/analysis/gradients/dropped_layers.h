#pragma once

#include <map>
#include <set>
#include <vector>

#include "analysis/runs/patched_runs.h"
#include "hooked/core/block_place.h"
#include "hooked/core/model_config.h"
#include "hooked/hooks/hook.h"

namespace hooked {

/// The layers of a model, of both stacks where there are two. Each has a gradient of its own, in which
/// nothing passes through what that layer adds to the stream (AtP*, "GradDrop").
class DroppedLayers {
 public:
  explicit DroppedLayers(const ModelConfig& config);

  /// In the order in which they run.
  const std::vector<BlockPlace>& all() const { return layers_; }

  /// Hooks that let no gradient through what a layer adds to the stream.
  std::vector<Hook> dropping(const BlockPlace& layer) const;

  /// By how much a cell's estimate without that layer counts in the mean: not at all where all of it lies in
  /// the layer, so that the mean is over the other layers; the stream lies in no layer, and its mean is over
  /// all.
  double share_without(const BlockPlace& layer, const Patch& cell) const;

 private:
  bool lies_in(const BlockPlace& layer, const Patch& cell) const;

  std::vector<BlockPlace> layers_;
  std::set<ActivationName> on_stream_;
  std::map<BlockPlace, Selection> added_;
};

}  // namespace hooked
