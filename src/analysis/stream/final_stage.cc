#include "analysis/stream/final_stage.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "hooked/hooks/act.h"
#include "hooks/stream.h"

namespace hooked {

// Both functions run the last stage of the model itself, so that no second implementation of the final norm
// can differ from it. Hooks of the caller's handle belong to other runs.

namespace {

/// The stream [row, 1, d_model] after the last block. Nothing there reads an encoder's output any more, so
/// any token will do for the encoder.
Input behind_last_block(const HookedTransformer& model, const at::Tensor& residual) {
  const auto& config = model.config();
  if (!config.has_encoder()) return Input::start_at_layer(config.n_layers, residual);
  return {at::zeros({residual.size(0), 1}, at::kLong), {.start = StartAtLayer{config.n_layers, residual}}};
}

}  // namespace

at::Tensor logits_of_residuals(const HookedTransformer& model, const at::Tensor& residuals) {
  // One row per point, one position each: [point, 1, d_model].
  return HookedTransformer(model.loaded())
      .run(behind_last_block(model, residuals.unsqueeze(1)))
      .logits()
      .select(1, 0)
      .to(at::kCPU, at::kDouble);
}

ActivationName final_norm_of(const ModelConfig& config) { return stream_of(config).back().through.front(); }

FinalAffine final_affine(const HookedTransformer& model) {
  const auto& config = model.config();
  const auto as_double = at::TensorOptions(at::kDouble);
  if (config.final_norm == NormKind::none) {
    return {at::full({config.d_model}, config.unembedding->in_scale, as_double),
            at::zeros({config.d_model}, as_double)};
  }
  const auto zeros =
      at::zeros({2, 1, config.d_model}, model.weights().W_U().options().dtype(config.stream_dtype()));
  const Address normalized(final_norm_of(config));
  const auto probe = HookedTransformer(model.loaded())
                         .run(behind_last_block(model, zeros),
                              {.edits = {set(normalized.row(0), 0.0), set(normalized.row(1), 1.0)},
                               .capture = act::unembed_in,
                               .output = Output::none});
  const auto out = probe.cache[act::unembed_in].select(1, 0).to(at::kCPU, at::kDouble);  // [2, d_model]
  return {out[1] - out[0], out[0]};
}

}  // namespace hooked
