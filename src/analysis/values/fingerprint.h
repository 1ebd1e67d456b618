#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/hash.h>
#include <fmt/format.h>

#include <string>

#include "hooked/core/tensor_text.h"

namespace hooked {

/// A text for a tensor's dtype, shape and numbers: different tensors have different texts.
inline std::string fingerprint(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  const at::Tensor bytes = tensor.cpu().contiguous();
  return fmt::format(
      "{} {} {}", dtype_text(tensor.scalar_type()), shape_text(tensor.sizes()),
      c10::sha1(std::string(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes())).str());
}

}  // namespace hooked
