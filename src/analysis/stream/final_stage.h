#pragma once

#include <ATen/core/Tensor.h>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_name.h"

namespace hooked {

/// The logits that the model reads from points of the stream, [point, d_model] to float64 [point, vocab]:
/// final norm, unembedding and soft cap.
at::Tensor logits_of_residuals(const HookedTransformer& model, const at::Tensor& residuals);

/// The norm before the unembedding, by its `normalized`, for a model that has one.
ActivationName final_norm_of(const ModelConfig& config);

/// What a normalised vector x becomes before the unembedding: x * weight + bias, from the final norm's
/// weights (ones and zeros if they are folded or the model has no norm) and `unembed_in_scale`.
struct FinalAffine {
  at::Tensor weight;  ///< [d_model] float64
  at::Tensor bias;    ///< [d_model] float64
};

FinalAffine final_affine(const HookedTransformer& model);

}  // namespace hooked
