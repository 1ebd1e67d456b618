#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <vector>

#include "hooks/watch.h"
#include "models/sequence/kv_cache.h"
#include "models/sequence/sequence.h"
#include "models/storage/workspace.h"

namespace hooked {

/// The state of one run, which passes through the graph with the activations. Used by one thread.
struct Run {
  Watch watch;                                    ///< who listens at which point
  Sequence sequence;                              ///< what the main stack reads
  std::optional<Sequence> encoder_sequence = {};  ///< what the encoder reads, if it runs
  at::Tensor token_types = {};                    ///< [batch, pos] int64; undefined: all 0
  /// For each layer whose keys and values later layers share: what it attended to, for each of its sequence's
  /// parts, as segments of columns.
  std::map<std::int64_t, std::vector<std::vector<KeysAndValues>>> lent_keys = {};
  /// 1 + w for the norms whose stored w means that, computed together; empty: each computes its own.
  std::vector<at::Tensor> offset_weights = {};
  /// Logits are those of the checkpoint even if the unembedding was centred: for code that reads their size.
  bool uncentred = false;
  const Workspace* workspace = nullptr;  ///< memory of activations; null: LibTorch's operators only

  operator Memory() const { return {workspace}; }  // NOLINT(google-explicit-constructor): operations take it
};

}  // namespace hooked
