// Operators for which CUDA has kernels and an unknown device does not: fused attention, and the gradient
// of RMSNorm.
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <array>
#include <vector>

#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/kernels.h"
#include "tests/support/strict_device/memory.h"
#include "tests/support/strict_device/recorder.h"

namespace hooked::strict {

std::int64_t choose_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const std::optional<at::Tensor>& mask, double /*dropout*/, bool /*causal*/,
                              std::optional<double> /*scale*/, bool /*shared*/) {
  const bool shared = q.size(1) != k.size(1);
  const bool gradients =
      at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  const bool small = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  const bool fused =
      q.scalar_type() != at::kDouble && !gradients && (!shared || (small && !(mask && mask->defined())));
  return static_cast<std::int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const std::optional<at::Tensor>& mask, double /*dropout*/, bool causal, bool /*debug*/,
                std::optional<double> scale) {
  const bool masked = mask && mask->defined();
  for (const at::Tensor& t : {k, v, masked ? *mask : q}) {
    TORCH_CHECK(t.device() == q.device(), "strict device: attention got tensors on ", q.device(), " and ",
                t.device());
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor out = at::empty({q.size(0), q.size(2), q.size(1), v.size(3)}, q.options()).transpose(1, 2);
  const at::Tensor none = at::empty({0}, q.options());
  const auto compute = [=](const std::array<at::Tensor, 5>& of) {
    const auto& [queries, keys, values, summand, into] = of;
    const at::AutoDispatchBelowADInplaceOrView below_here;
    OpenMemory opened;
    const auto host_mask = masked ? std::optional(opened.alias(summand)) : std::nullopt;
    opened.alias(into).copy_(std::get<0>(at::_scaled_dot_product_attention_math(
        opened.alias(queries), opened.alias(keys), opened.alias(values), host_mask, /*dropout_p=*/0.0, causal,
        std::nullopt, scale, /*enable_gqa=*/queries.size(1) != keys.size(1))));
    note_launch("fused attention");
  };
  const std::array<at::Tensor, 5> all{q, k, v, masked ? *mask : at::Tensor(), out};
  compute(all);
  if (is_recording()) {
    record_step([compute, kept = std::vector<KeptTensor>(all.begin(), all.end())] {
      compute({kept[0].get(), kept[1].get(), kept[2].get(), kept[3].get(), kept[4].get()});
    });
  }
  return {out, none, none, none, 0, 0, none, none, none};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                     at::IntArrayRef shape, const at::Tensor& rstd,
                                                     const std::optional<at::Tensor>& weight,
                                                     std::array<bool, 2> wanted) {
  const bool weighted = weight && weight->defined();
  for (const at::Tensor& t : {x, rstd, weighted ? *weight : x}) {
    TORCH_CHECK(t.device() == gradient.device(), "strict device: _fused_rms_norm_backward got tensors on ",
                gradient.device(), " and ", t.device());
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor dx, dw;
  if (wanted[0]) dx = at::empty(x.sizes(), x.options());
  if (wanted[1] && weighted) dw = at::empty(shape, x.options());
  OpenMemory opened;
  const at::Tensor from = opened.alias(gradient), r = opened.alias(rstd), unit = opened.alias(x) * r;
  const at::Tensor scaled = weighted ? from * opened.alias(*weight) : from;
  std::vector<std::int64_t> inner, outer;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    (x.dim() - d > static_cast<std::int64_t>(shape.size()) ? outer : inner).push_back(d);
  }
  if (dx.defined())
    opened.alias(dx).copy_(r * (scaled - unit * (scaled * unit).mean(inner, /*keepdim=*/true)));
  if (dw.defined()) opened.alias(dw).copy_((from * unit).sum(outer));
  note_launch("_fused_rms_norm_backward");
  return {dx, dw};
}

}  // namespace hooked::strict
