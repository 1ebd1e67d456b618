#include "hooked/core/tensor_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hooked {

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

std::string_view dtype_text(at::ScalarType dtype) noexcept {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(dtype);
  }
}

std::optional<at::ScalarType> parse_float_dtype(std::string_view name) noexcept {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    if (dtype_text(dtype) == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace hooked
