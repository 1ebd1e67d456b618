#pragma once

#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

/// Kernels that replace CUDA's; without them an unknown device would get LibTorch's composites.
namespace hooked::strict {

/// As CUDA chooses: no fused kernel takes float64, none for float32 shares keys between heads, none for 16
/// bits does so with a mask. (With gradients CUDA fuses too; here they go through the composite.)
std::int64_t choose_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const std::optional<at::Tensor>& mask, double dropout, bool causal,
                              std::optional<double> scale, bool shared);

using Attended = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt,
                            at::Tensor, at::Tensor, at::Tensor>;
/// Attention as one kernel.
Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const std::optional<at::Tensor>& mask, double dropout, bool causal, bool debug,
                std::optional<double> scale);

/// As CUDA: on cards of some generations in bfloat16. The third of these devices is of another generation.
inline bool multiplies_groups(int index, at::ScalarType dtype) {
  return dtype == at::kBFloat16 && index != 2;
}

/// The CPU has no kernel for it.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                     at::IntArrayRef shape, const at::Tensor& rstd,
                                                     const std::optional<at::Tensor>& weight,
                                                     std::array<bool, 2> wanted);

}  // namespace hooked::strict
