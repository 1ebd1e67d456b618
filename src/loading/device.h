#pragma once

#include <c10/core/Device.h>

#include <string>

namespace hooked {

/// The device of that name, ready for use: for `cuda` LibTorch's CUDA library is loaded into the process. A
/// backend that the program itself has registered with LibTorch (its PrivateUse1) is known by the name that
/// it was given there. Throws IoError saying which library or driver is missing, ConfigError for a name that
/// is not a valid device.
c10::Device open_device(const std::string& name);

}  // namespace hooked
