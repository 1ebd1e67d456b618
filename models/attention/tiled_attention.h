#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/attention/score_rules.h"
#include "models/sequence/kv_cache.h"

namespace hooked {

/// Which of the two is kept whole.
struct ScoresToKeep {
  bool scores = false;
  bool pattern = false;
};

/// What attention makes.
struct AttentionOutput {
  at::Tensor z;        ///< [batch, pos, head, d_value]; undefined: there are no values
  at::Tensor scores;   ///< [batch, head, query, key], finished; undefined: not kept
  at::Tensor pattern;  ///< the same of the probabilities
};

/// Attention of q [batch, pos, head, d_head] to `attended`, segments of columns from left to right. A tile of
/// queries at a time is held against the keys that it can see, so that the scores of all heads and queries
/// exist only where they are kept. Segments may be without values, where only these are wanted. Not while
/// gradients are recorded.
AttentionOutput attend_in_tiles(const at::Tensor& q, const std::vector<KeysAndValues>& attended,
                                const ScoreRules& rules, ScoresToKeep kept, Memory memory);

/// Whether a tile's cap, bias, mask and softmax are one pass of our own.
bool own_softmax(const at::Tensor& q);

}  // namespace hooked
