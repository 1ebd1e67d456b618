#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/attention/score_rules.h"
#include "models/sequence/kv_cache.h"

namespace hooked {

/// Which of the two to keep whole.
struct ScoresToKeep {
  bool scores = false;
  bool pattern = false;
};

/// The results of attention.
struct AttentionOutput {
  at::Tensor z;        ///< [batch, pos, head, d_value]; undefined without values
  at::Tensor scores;   ///< [batch, head, query, key], finished; undefined: not kept
  at::Tensor pattern;  ///< the same for the probabilities
};

/// Attention of q [batch, pos, head, d_head] to `attended`, segments of columns from left to right. One tile
/// of queries at a time meets the keys that it can see, so that the scores of all heads and queries exist
/// only if they are kept. Segments may lack values if only scores or pattern are wanted. Not while gradients
/// are recorded.
AttentionOutput attend_in_tiles(const at::Tensor& q, const std::vector<KeysAndValues>& attended,
                                const ScoreRules& rules, ScoresToKeep kept, Memory memory);

/// Whether a tile's cap, bias, mask and softmax are one pass of our own kernel.
bool own_softmax(const at::Tensor& q);

}  // namespace hooked
