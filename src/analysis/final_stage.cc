#include "analysis/final_stage.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "hooked/hooks/act.h"

namespace hooked {

// Both functions ask the model itself, by a run of its last stage, so that no second implementation of the
// final norm can disagree with the first.

at::Tensor logits_of_residuals(const HookedTransformer& model, const at::Tensor& residuals) {
  // One row per point, one position each: [point, 1, d_model].
  return model.run(residuals.unsqueeze(1), {.start_at_layer = model.config().n_layers})
      .logits.select(1, 0)
      .to(at::kCPU, at::kDouble);
}

FinalAffine final_affine(const HookedTransformer& model) {
  const auto& config = model.config();
  const auto as_double = at::TensorOptions(at::kDouble);
  if (config.final_norm == NormKind::none) {
    return {at::full({config.d_model}, config.unembed_in_scale, as_double),
            at::zeros({config.d_model}, as_double)};
  }
  const auto zeros = at::zeros({2, 1, config.d_model}, model.weights().W_U().options());
  const Address normalized = act::ln_final_normalized;
  const auto probe = model.run(zeros, {.capture = act::unembed_in,
                                       .edits = {set(normalized.row(0), 0.0), set(normalized.row(1), 1.0)},
                                       .output = Output::none,
                                       .start_at_layer = config.n_layers});
  const auto out = probe.cache[act::unembed_in].select(1, 0).to(at::kCPU, at::kDouble);  // [2, d_model]
  return {out[1] - out[0], out[0]};
}

}  // namespace hooked
