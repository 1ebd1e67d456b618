#pragma once

#include <map>
#include <set>
#include <vector>

#include "analysis/runs/patched_runs.h"
#include "hooked/core/block_place.h"
#include "hooked/core/model_config.h"
#include "hooked/hooks/hook.h"

namespace hooked {

/// The layers of a model, of both stacks if there are two. Each has a gradient of its own, which does not
/// flow through what that layer adds to the stream (AtP*, "GradDrop").
class DroppedLayers {
 public:
  explicit DroppedLayers(const ModelConfig& config);

  /// In the order in which they run.
  const std::vector<BlockPlace>& all() const { return layers_; }

  /// Hooks that stop gradients at what a layer adds to the stream.
  std::vector<Hook> dropping(const BlockPlace& layer) const;

  /// The weight in the mean of a cell's estimate without that layer. It is 0 if all of the cell is in the
  /// layer, so that the mean is over the other layers. The stream is in no layer, and its mean is over all
  /// layers.
  double share_without(const BlockPlace& layer, const Patch& cell) const;

 private:
  bool lies_in(const BlockPlace& layer, const Patch& cell) const;

  std::vector<BlockPlace> layers_;
  std::set<ActivationName> on_stream_;
  std::map<BlockPlace, Selection> added_;
};

}  // namespace hooked
