#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The activation function that a layer applies to its neurons, with its parameter if it has one.
class Activation {
 public:
  /// The supported functions.
  enum Kind : std::uint8_t {
    relu,
    gelu,           ///< exact: x Phi(x)
    gelu_tanh,      ///< tanh approximation (`gelu_new`, `gelu_pytorch_tanh`)
    gelu_fast,      ///< tanh approximation with sqrt(2/pi) rounded to 0.7978845608
    gelu_bloom,     ///< tanh approximation with sqrt(2/pi) rounded to 0.79788456 (BLOOM)
    gelu_quick,     ///< x sigmoid(1.702 x)
    silu,           ///< x sigmoid(x)
    solu,           ///< x softmax(x) over the neurons (Elhage et al. 2022)
    relu_squared,   ///< max(0, x)^2
    sigmoid,        ///< the gate of the original GLU (Dauphin et al. 2017)
    xielu,          ///< piecewise with two trained slopes per layer, `mlp.xielu.*` (Huang and Schlag 2024)
    swish,          ///< x sigmoid(beta x) (Ramachandran et al. 2017)
    gelu_clipped,   ///< gelu clamped to -10 to 10 (`gelu_10`)
    hard_swish,     ///< x clamp(x + 3, 0, 6) / 6 (Howard et al. 2019)
    identity,       ///< x (`linear`)
    laplace,        ///< (1 + erf((x - 0.707107) / (0.282095 sqrt(2)))) / 2 (Ma et al. 2022)
    leaky_relu,     ///< x above 0, x / 100 below
    mish,           ///< x tanh(softplus(x)) (Misra 2019)
    relu6,          ///< clamp(x, 0, 6)
    sqrt_softplus,  ///< sqrt(softplus(x)), with softplus(x) = x above 20
    tanh,
  };

  /// A kind, with its parameter at the usual value.
  constexpr Activation(Kind kind = relu) noexcept : kind_(kind) {}  // NOLINT: a kind is an activation

  /// x sigmoid(beta x). ModelConfig::validate() checks beta.
  static constexpr Activation swish_with(double beta) noexcept {
    Activation made(swish);
    made.beta_ = beta;
    return made;
  }

  /// Which function it is.
  constexpr Kind kind() const noexcept { return kind_; }
  constexpr double beta() const noexcept { return beta_; }  ///< of swish; 1 for every other kind

  bool operator==(const Activation&) const = default;

 private:
  Kind kind_;
  double beta_ = 1.0;
};

/// The activation that a config value names (`gelu_new`, `quick_gelu`, `silu`, ...), or nothing. Accepts the
/// names of TransformerLens and of Hugging Face; `swish_beta` is swish with beta 1. `solu_ln` is not one: it
/// is solu followed by a norm.
std::optional<Activation> parse_activation(std::string_view name) noexcept;

/// The name as written to config files; `?` for a value that is not a kind.
std::string_view activation_name(Activation activation) noexcept;

}  // namespace hooked
