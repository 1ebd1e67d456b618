#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "hooked/loading/device_names.h"
#include "models/replay/recorder.h"
#include "models/storage/groups_kernel.h"

namespace hooked {

/// The device of that name, ready for use: for `cuda` LibTorch's CUDA library is loaded into the process. A
/// backend that the program itself has registered with LibTorch (its PrivateUse1) is known by the name that
/// it was given there. Throws IoError saying which library or driver is missing, ConfigError for a name that
/// is not a valid device.
c10::Device open_device(const std::string& name);

/// All of these, in their order. Throws as open_device(), and ConfigError for a device that is named twice,
/// for devices of several kinds, and where there is none.
std::vector<c10::Device> open_devices(const DeviceNames& names);

/// What records runs on a device.
struct OpenedRecorder {
  std::unique_ptr<Recorder> recorder;  ///< null: runs are handed out kernel by kernel
  std::string problem;                 ///< why; empty on the CPU, which has nothing to gain
};

/// Of an open device: CUDA's comes with libhooked_cuda.so. A backend of the program's own brings one by a
/// function `hooked_recorder_<its name>` that is a MakeRecorder with C linkage.
OpenedRecorder open_recorder(const c10::Device& device);

/// Whether an open device multiplies groups of rows in one kernel of that dtype: on CUDA by what
/// libhooked_cuda.so tried. A backend of the program's own says so by a function
/// `hooked_multiplies_groups_<its name>` that is a MultipliesGroups with C linkage.
bool multiplies_groups(const c10::Device& device, at::ScalarType dtype);

}  // namespace hooked
