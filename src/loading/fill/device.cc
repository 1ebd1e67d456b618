#include "loading/fill/device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>

#include "hooked/core/error.h"

namespace hooked {
namespace {

// After a kind of device: all devices of that kind.
constexpr std::string_view kAll = ":all";

std::optional<c10::Device> parse_device(const std::string& name) {
  try {
    return c10::Device(name);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// A custom backend that the program has registered with LibTorch.
bool is_registered_backend(const c10::Device& device) {
  return device.is_privateuseone() && c10::is_privateuse1_backend_registered() &&
         c10::impl::hasDeviceGuardImpl(device.type());
}

// Note [Loading CUDA before asking for it]
// A program linked to LibTorch's CPU library registers the CUDA kernels by loading LibTorch's CUDA library.
// LibTorch creates its CUDA hooks once, at the first question about CUDA. Without that library they are stubs
// for the life of the process. So nothing may be asked before the library is loaded, not even whether CUDA is
// available. Loading a loaded library costs nothing.
void load_cuda_library(const std::string& name) {
  for (const char* library : {"libc10_cuda.so", "libtorch_cuda.so"}) {
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr) continue;
    const std::string reason = dlerror();
    if (reason.starts_with(library)) {
      throw IoError(name,
                    fmt::format("this LibTorch was built without CUDA ({}); expected one with CUDA, or the "
                                "device cpu",
                                reason));
    }
    throw IoError(name,
                  fmt::format("LibTorch's CUDA library could not be loaded ({}); expected NVIDIA's libraries "
                              "at the versions that torch pins; install them (in a checkout: "
                              "scripts/setup.sh --cuda) or use the device cpu",
                              reason));
  }
}

bool has_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

int visible_gpus(const std::string& name) {
  load_cuda_library(name);
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  if (!cuda.hasCUDART()) {
    throw IoError(
        name,
        "LibTorch was asked for CUDA before its CUDA library was loaded, by gradients or training on the "
        "CPU or by another library, and does without CUDA from then on; open the first CUDA model or "
        "cache_device before that");
  }
  const int count = cuda.hasCUDA() ? cuda.deviceCount() : 0;
  if (count == 0 && !has_driver()) {
    throw IoError(
        name, "no driver of NVIDIA's is installed (libcuda.so.1); expected one and a GPU, or the device cpu");
  }
  return count;
}

// Parses a device that this engine runs on.
c10::Device known_device(const std::string& name) {
  const auto device = parse_device(name);
  if (device && (device->is_cpu() || device->is_cuda() || is_registered_backend(*device))) return *device;
  throw ConfigError(
      "device", fmt::format("'{}' is not a device this engine runs on; expected cpu, cuda or cuda:N", name));
}

// The number of devices of a kind.
int count_of(const c10::Device& device, const std::string& name) {
  return device.is_cuda() ? visible_gpus(name) : c10::impl::getDeviceGuardImpl(device.type())->deviceCount();
}

// A function with C linkage for a kind of device: its name is `prefix` followed by the kind's.
struct Found {
  void* function;
  std::string problem;  ///< why it was not found
};

Found function_of(const c10::Device& device, const std::string& prefix) {
  void* in = RTLD_DEFAULT;
  if (device.is_cuda()) {
    in = dlopen("libhooked_cuda.so", RTLD_NOW | RTLD_LOCAL);
    if (in == nullptr)
      return {nullptr, fmt::format("hooked's CUDA library could not be loaded ({})", dlerror())};
  }
  const std::string name = prefix + c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  void* const found = dlsym(in, name.c_str());
  return {found, found == nullptr ? fmt::format("there is no {}", name) : std::string()};
}

}  // namespace

c10::Device open_device(const std::string& name) {
  const c10::Device device = known_device(name);
  if (device.is_cpu()) return device;
  const int count = count_of(device, name);
  const int index = device.has_index() ? device.index() : 0;
  if (index >= count) {
    throw IoError(
        name,
        fmt::format("there is no such GPU: {} visible; expected a driver and a device, or use the device "
                    "cpu",
                    count));
  }
  return {device.type(), static_cast<c10::DeviceIndex>(index)};
}

std::vector<c10::Device> open_devices(const DeviceNames& names) {
  std::vector<c10::Device> devices;
  for (const std::string& name : names.all()) {
    if (name.ends_with(kAll)) {
      const c10::Device kind = known_device(name.substr(0, name.size() - kAll.size()));
      const int count = kind.is_cpu() ? 1 : count_of(kind, name);
      for (int index = 0; index < count; ++index)
        devices.emplace_back(kind.type(), static_cast<c10::DeviceIndex>(kind.is_cpu() ? -1 : index));
    } else {
      devices.push_back(open_device(name));
    }
  }
  if (devices.empty()) throw ConfigError("device", "no device is named; expected cpu, cuda or cuda:N");
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    if (std::find(devices.begin(), device, *device) != device) {
      throw ConfigError("device",
                        fmt::format("'{}' is named twice; expected each device once", device->str()));
    }
    if (device->type() != devices.front().type()) {
      throw ConfigError("device", fmt::format("'{}' and '{}' are of two kinds; expected several GPUs of one "
                                              "kind, or one device",
                                              devices.front().str(), device->str()));
    }
  }
  return devices;
}

OpenedRecorder open_recorder(const c10::Device& device) {
  if (device.is_cpu()) return {};
  const Found make = function_of(device, "hooked_recorder_");
  if (make.function == nullptr) return {nullptr, make.problem};
  return {std::unique_ptr<Recorder>(reinterpret_cast<MakeRecorder>(make.function)(device.index())), {}};
}

bool multiplies_groups(const c10::Device& device, at::ScalarType dtype) {
  if (device.is_cpu()) return false;
  const Found ask = function_of(device, "hooked_multiplies_groups_");
  return ask.function != nullptr && reinterpret_cast<MultipliesGroups>(ask.function)(device.index(), dtype);
}

}  // namespace hooked
