#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "analysis/patching/cell_plan.h"
#include "hooked/core/block_place.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"

namespace hooked {

/// The first-order estimate (the field's attribution patching) of the change from the patches of one row,
/// [patch] float64 on the CPU: the sum of (value - unpatched value) . gradient. `gradients` are those of that
/// row. Throws HookError for ids, which have no gradient.
at::Tensor first_order(const CellPatches& made, const PatchedRuns& runs, const ActivationCache& gradients);

/// Throws HookError for cells that are not queries or keys of the stack that predicts, and for keys of a
/// layer in which hooks or edits change the attention probabilities: the effect of a single key on these is
/// then not known.
void require_query_key(const CellGroup& group, const HookedTransformer& model, const SweepOptions& sweep);

/// The attention that uses the queries or keys of one layer. Later layers may attend with the same keys.
class AttentionWith {
 public:
  /// For queries or keys of the stack that predicts.
  AttentionWith(const HookedTransformer& model, const ActivationName& patched);

  const ActivationName& patched() const { return patched_; }
  /// The layers that attend with them, their own first.
  const std::vector<std::int64_t>& layers() const { return layers_; }
  /// The sinks of a layer's heads, [head] float64; undefined: none.
  at::Tensor sinks(std::int64_t layer) const;
  /// Whether a norm of these queries or keys spans all heads.
  bool heads_share_a_norm() const;
  /// The attention probabilities, whose gradients and values are needed.
  const std::vector<ActivationName>& patterns() const { return patterns_; }
  /// What else through_patterns() reads of the run without patches, in addition to what is patched.
  const std::vector<ActivationName>& read() const { return read_; }
  /// An activation of a layer.
  Address in(std::int64_t layer, const act::BlockSite& site) const;

 private:
  const HookedTransformer& model_;
  ActivationName patched_;
  std::vector<std::int64_t> layers_;
  std::vector<ActivationName> patterns_, read_;
};

/// Like first_order(), for patches of the queries or the keys of one layer: computes the attention
/// probabilities that the patches result in, and uses the gradient with respect to these. Throws HookError
/// for patches of a part of a head's numbers, and for two patches that put different things into one place.
at::Tensor through_patterns(const CellPatches& made, const AttentionWith& attention, const PatchedRuns& runs,
                            const ActivationCache& gradients);

/// The layers of a model, of both stacks if there are two. Each has a gradient of its own, which does not
/// flow through what that layer adds to the stream (AtP*, "GradDrop").
class DroppedLayers {
 public:
  explicit DroppedLayers(const ModelConfig& config);

  /// In the order in which they run.
  const std::vector<BlockPlace>& all() const { return layers_; }

  /// Hooks that stop gradients at what a layer adds to the stream.
  Hooks dropping(const BlockPlace& layer) const;

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
