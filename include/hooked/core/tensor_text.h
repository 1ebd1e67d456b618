#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A shape as messages show it: `[2, 5, 16]`.
std::string shape_text(at::IntArrayRef shape);

/// The name of a dtype: `float32`, `bfloat16`, `int64`.
std::string_view dtype_text(at::ScalarType dtype) noexcept;

/// The floating-point dtype of that name (`float32`, `float64`, `float16`, `bfloat16`), or nothing.
std::optional<at::ScalarType> parse_float_dtype(std::string_view name) noexcept;

}  // namespace hooked
