#pragma once

#include <vector>

#include "hooked/core/model_config.h"

namespace hooked {

/// Every activation function, in the order of the enum; swish with beta 1.
inline std::vector<Activation> all_activations() {
  std::vector<Activation> all;
  for (int i = 0; activation_name(static_cast<Activation::Kind>(i)) != "?"; ++i)
    all.push_back(static_cast<Activation::Kind>(i));
  return all;
}

/// The activation functions with a derivative everywhere.
inline bool is_smooth(Activation activation) {
  switch (activation.kind()) {
    case Activation::relu:
    case Activation::relu_squared:
    case Activation::gelu_clipped:
    case Activation::hard_swish:
    case Activation::leaky_relu:
    case Activation::relu6:
      return false;
    default:
      return true;
  }
}

}  // namespace hooked
