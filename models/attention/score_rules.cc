#include "models/attention/score_rules.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "models/ops/ops.h"
#include "models/ops/recorded.h"

namespace hooked {

at::Tensor finished_scores(at::Tensor scores, const ScoreRules& rules, const TileRules& here, Memory memory) {
  if (rules.soft_cap > 0) scores = ops::soft_cap(scores, rules.soft_cap);
  if (here.bias.defined()) scores = scores + here.bias;
  if (!here.blocked.defined()) return scores;
  return memory.workspace != nullptr && !records(scores) ? scores.masked_fill_(here.blocked, kMasked)
                                                         : scores.masked_fill(here.blocked, kMasked);
}

at::Tensor probabilities(const at::Tensor& scores, const ScoreRules& rules, const TileRules& here,
                         Memory memory) {
  if (here.sinks.defined()) {
    // One more column, so that every row has a finite score, and rows over keys sum to less than 1.
    const at::Tensor column = here.sinks.view({1, -1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
    return ops::softmax(at::cat({scores, column}, -1), memory).narrow(-1, 0, scores.size(-1));
  }
  if (!rules.has_empty_rows) return ops::softmax(scores, memory);
  // The softmax of a row that sees nothing is 0/0; its pattern is set to zero.
  const at::Tensor empty = (scores == kMasked).all(-1, /*keepdim=*/true);
  return ops::softmax(scores.masked_fill(empty, 0.0), memory).masked_fill(empty, 0.0);
}

}  // namespace hooked
