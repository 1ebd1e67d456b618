#include "hooked/engine/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <fmt/format.h>

#include "core/to_device.h"
#include "hooked/core/error.h"

namespace hooked {

namespace {

// Tokens on another device are not checked, as that would wait for it.
void require_predicted(const at::Tensor& tokens, std::int64_t vocab) {
  if (!tokens.is_cpu() || tokens.numel() == 0) return;
  const auto largest = tokens.max().item<std::int64_t>();
  if (largest < vocab) return;
  throw ShapeError("loss",
                   fmt::format("token id {} is not among the tokens that the model predicts; expected "
                               "0 to {}",
                               largest, vocab - 1));
}

}  // namespace

at::Tensor token_log_probs(const at::Tensor& logits, const at::Tensor& tokens) {
  require_predicted(tokens, logits.size(-1));
  const at::ScalarType precision = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor there = to_device(tokens, logits.device()).unsqueeze(-1);
  return at::log_softmax(logits.to(precision), -1).gather(-1, there).squeeze(-1);
}

at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& tokens, const at::Tensor& real,
                           LossReduction reduction) {
  const std::int64_t predictions = tokens.size(1) - 1;
  const at::Tensor losses = -token_log_probs(logits.narrow(1, 0, predictions),
                                             tokens.narrow(1, 1, predictions));  // [batch, pos - 1]
  return reduced_loss(losses, real, reduction);
}

at::Tensor reduced_loss(const at::Tensor& losses, const at::Tensor& real, LossReduction reduction) {
  if (!real.defined()) return reduction == LossReduction::per_token ? losses : losses.mean();
  const std::int64_t predictions = losses.size(1);
  const at::Tensor there = to_device(real, losses.device());
  const at::Tensor counted = there.narrow(1, 0, predictions).logical_and(there.narrow(1, 1, predictions));
  const at::Tensor masked = losses.masked_fill(counted.logical_not(), 0.0);
  return reduction == LossReduction::per_token ? masked : masked.sum() / counted.sum();
}

}  // namespace hooked
