#pragma once

#include <c10/core/ScalarType.h>

namespace hooked {

/// A function that says whether a device, of that index among those of its kind, multiplies each of several
/// groups of rows by its own matrix in one kernel of that dtype, without the host knowing their lengths
/// (at::_grouped_mm). If LibTorch has no such kernel, the operator asks for the lengths, and waits.
using MultipliesGroups = bool (*)(int index, c10::ScalarType dtype);

}  // namespace hooked
