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

/// What belongs to one run and passes through the graph with the activations. Used by one thread.
struct Run {
  Watch watch;                                    ///< who listens at which point
  Sequence sequence;                              ///< what the main stack reads
  std::optional<Sequence> encoder_sequence = {};  ///< what the encoder reads, where it runs
  at::Tensor token_types = {};                    ///< [batch, pos] int64; undefined: all 0
  /// What each layer attended to whose keys and values later layers share, of each of its sequence's parts:
  /// segments of columns.
  std::map<std::int64_t, std::vector<std::vector<KeysAndValues>>> lent_keys = {};
  /// 1 + w of the norms whose stored weight w means that, made at once; empty: each makes its own.
  std::vector<at::Tensor> offset_weights = {};
  /// Logits are those of the checkpoint, also where the unembedding was centred: for what reads their size.
  bool uncentred = false;
  const Workspace* workspace = nullptr;  ///< memory of activations; null: LibTorch's operators only

  operator Memory() const { return {workspace}; }  // NOLINT(google-explicit-constructor): operations take it
};

}  // namespace hooked
