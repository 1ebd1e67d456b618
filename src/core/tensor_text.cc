#include "hooked/core/tensor_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/option_names.h"

namespace hooked {
namespace {

struct DtypeName {
  at::ScalarType dtype;
  std::string_view name;
};
constexpr DtypeName kDtypes[] = {
    {at::kFloat, "float32"}, {at::kDouble, "float64"}, {at::kHalf, "float16"}, {at::kBFloat16, "bfloat16"},
    {at::kLong, "int64"},    {at::kInt, "int32"},      {at::kShort, "int16"},  {at::kChar, "int8"},
    {at::kByte, "uint8"},    {at::kBool, "bool"}};

}  // namespace

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

std::string_view dtype_text(at::ScalarType dtype) noexcept {
  const auto* const found = std::ranges::find(kDtypes, dtype, &DtypeName::dtype);
  return found == std::end(kDtypes) ? c10::toString(dtype) : found->name;
}

std::optional<at::ScalarType> parse_float_dtype(std::string_view name) noexcept {
  if (std::ranges::find(kFloatDtypeNames, name) == kFloatDtypeNames.end()) return std::nullopt;
  return std::ranges::find(kDtypes, name, &DtypeName::name)->dtype;
}

}  // namespace hooked
