#pragma once

#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The version of this library, `major.minor.patch`, as in the file VERSION.
std::string_view version();

/// The version of the LibTorch whose headers this library was compiled with, as its TORCH_VERSION states it.
std::string_view libtorch_version();

}  // namespace hooked
