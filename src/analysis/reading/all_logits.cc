#include "analysis/reading/all_logits.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>

#include "analysis/stream/logit_reading.h"
#include "hooks/norm_points.h"

namespace hooked {

AllLogits::AllLogits(const RunReading& run) : run_(run), affine_(final_affine(run.model)) {
  const auto& config = run.model.config();
  const auto weights = run.model.weights();
  const auto scale = config.unembedding->scale;
  W_U_ = weights.W_U().to(at::kCPU, at::kDouble) * scale;
  b_U_ = weights.b_U().to(at::kCPU, at::kDouble) * scale;
  if (config.final_norm == NormKind::none) return;
  norm_ = FrozenNorm{.centres = config.final_norm == NormKind::layer_norm,
                     .scale = run(scale_of(final_norm_of(config))),
                     .weight = affine_.weight};
}

at::Tensor AllLogits::of(const at::Tensor& streams) const {
  return at::matmul(norm_ ? norm_->of(streams) : streams * affine_.weight, W_U_);
}

at::Tensor AllLogits::of_biases() const { return at::matmul(affine_.bias, W_U_) + b_U_; }

at::Tensor AllLogits::shown() const {
  const auto [logits, unembedded] = shown_end(run_);
  if (logits.defined()) return logits.to(at::kCPU, at::kDouble);
  return unembedded.defined() ? at::matmul(unembedded, W_U_) + b_U_ : at::Tensor();
}

}  // namespace hooked
