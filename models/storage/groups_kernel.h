#pragma once

#include <c10/core/ScalarType.h>

namespace hooked {

/// A function that says whether a device, of that index among those of its kind, multiplies groups of rows by
/// a matrix each in one kernel of that dtype, without telling the host how long they are (at::_grouped_mm).
/// Where LibTorch has no such kernel the operator asks for the lengths, and waits.
using MultipliesGroups = bool (*)(int index, c10::ScalarType dtype);

}  // namespace hooked
