#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <string>

#include "hooked/core/tensor_text.h"

namespace hooked {

/// `float32 [2, 5, 8] on cpu`, for errors.
inline std::string layout_text(const at::Tensor& value) {
  return fmt::format("{} {} on {}", dtype_text(value.scalar_type()), shape_text(value.sizes()),
                     value.device().str());
}

}  // namespace hooked
