#include "hooked/core/tensor_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/option_names.h"

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
  // In the order of the names.
  static constexpr std::array<at::ScalarType, kFloatDtypeNames.size()> kDtypes = {at::kFloat, at::kDouble,
                                                                                  at::kBFloat16, at::kHalf};
  const auto found = std::find(kFloatDtypeNames.begin(), kFloatDtypeNames.end(), name);
  if (found == kFloatDtypeNames.end()) return std::nullopt;
  return kDtypes[static_cast<std::size_t>(found - kFloatDtypeNames.begin())];
}

}  // namespace hooked
