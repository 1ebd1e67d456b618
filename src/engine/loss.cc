#include "engine/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>

namespace hooked {

at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& tokens, const at::Tensor& real,
                           LossReduction reduction) {
  const std::int64_t predictions = tokens.size(1) - 1;
  const at::Tensor precise = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  const at::Tensor log_probabilities = at::log_softmax(precise.narrow(1, 0, predictions), -1);
  const at::Tensor next = tokens.narrow(1, 1, predictions).unsqueeze(-1);
  const at::Tensor loss = -log_probabilities.gather(-1, next).squeeze(-1);  // [batch, pos - 1]
  if (!real.defined()) return reduction == LossReduction::per_token ? loss : loss.mean();
  const at::Tensor counted = real.narrow(1, 0, predictions).logical_and(real.narrow(1, 1, predictions));
  const at::Tensor masked = loss.masked_fill(counted.logical_not(), 0.0);
  return reduction == LossReduction::per_token ? masked : masked.sum() / counted.sum();
}

}  // namespace hooked
