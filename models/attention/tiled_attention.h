#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/sequence/attention_mask.h"
#include "models/sequence/kv_cache.h"
#include "models/storage/workspace.h"

namespace hooked {

/// How products of queries and keys become probabilities.
struct ScoreRules {
  double scale;             ///< products are multiplied by it
  double soft_cap;          ///< scores := cap tanh(scores / cap); 0 is off
  const at::Tensor& sinks;  ///< [head]: a logit per head to which no value belongs; undefined: none
  const AttentionMask& mask;
  bool has_empty_rows;  ///< some queries, of padding or because scores were changed, may see nothing at all
};

/// The part of the rules for some scores.
struct TileRules {
  at::Tensor bias;     ///< [1 or batch, head, query, key]; undefined: none
  at::Tensor blocked;  ///< [1 or batch, 1, query, key] bool; undefined: nothing is
  at::Tensor sinks;    ///< [head]; undefined: none
};

/// Applies cap, bias and mask to `scores` [batch, head, query, key], which may be overwritten if no gradients
/// are recorded.
at::Tensor finished_scores(at::Tensor scores, const ScoreRules& rules, const TileRules& here, Memory memory);

/// Probabilities over keys from finished scores; rows that see nothing are zero.
at::Tensor probabilities(const at::Tensor& scores, const ScoreRules& rules, const TileRules& here,
                         Memory memory);

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
