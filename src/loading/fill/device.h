#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "hooked/loading/device_names.h"
#include "models/replay/recorder.h"
#include "models/storage/groups_kernel.h"

namespace hooked {

/// The device of that name, ready for use: for `cuda`, LibTorch's CUDA library is loaded into the process. A
/// backend that the program itself has registered with LibTorch (its PrivateUse1) has the name that it was
/// registered under. Throws IoError saying which library or driver is missing, ConfigError for a name that is
/// not a valid device.
c10::Device open_device(const std::string& name);

/// All of these, in their order. Throws as open_device(), and ConfigError for a device that is named twice,
/// for devices of several kinds, and if there is none.
std::vector<c10::Device> open_devices(const DeviceNames& names);

/// The recorder of runs on a device.
struct OpenedRecorder {
  std::unique_ptr<Recorder> recorder;  ///< null: runs are launched kernel by kernel
  std::string problem;                 ///< why; empty on the CPU, where recording brings nothing
};

/// For an open device: CUDA's comes with libhooked_cuda.so. A custom backend of the program provides one by a
/// function `hooked_recorder_<its name>` that is a MakeRecorder with C linkage.
OpenedRecorder open_recorder(const c10::Device& device);

/// Whether an open device multiplies groups of rows in one kernel of that dtype; for CUDA, libhooked_cuda.so
/// tries it. A custom backend of the program says so by a function `hooked_multiplies_groups_<its name>` that
/// is a MultipliesGroups with C linkage.
bool multiplies_groups(const c10::Device& device, at::ScalarType dtype);

}  // namespace hooked
