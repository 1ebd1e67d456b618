#include "tests/support/strict_device/device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstring>

#include "tests/support/strict_device/boxed_kernel.h"
#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/kernels.h"
#include "tests/support/strict_device/memory.h"
#include "tests/support/strict_device/recorder.h"
#include "tests/support/strict_device/streams.h"

namespace hooked::strict {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// ---- tensors and copies

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                 std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(*device);
  at::Tensor made =
      at::detail::empty_generic(sizes, device_allocator(), kKeys, c10::dtype_or_default(dtype), format);
  note_allocated(made);
  return made;
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                         std::optional<bool> /*pinned*/) {
  const c10::DeviceGuard guard(*device);
  at::Tensor made = at::detail::empty_strided_generic(sizes, strides, device_allocator(), kKeys,
                                                      c10::dtype_or_default(dtype));
  note_allocated(made);
  return made;
}

// For an `out` that its operator overwrites: old contents go.
const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> /*format*/) {
  const auto bytes = at::detail::computeStorageNbytesContiguous(
      sizes, self.itemsize(), static_cast<std::size_t>(self.storage_offset()));
  if (bytes > self.storage().nbytes()) {
    const c10::DeviceGuard guard(self.device());
    auto* const storage = self.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(device_allocator()->allocate(bytes));
    storage->set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

// LibTorch waits unless the call says not to, and CUDA then still waits for pageable memory.
bool waits_for(const at::Tensor& of_host, bool non_blocking) {
  return !non_blocking || !is_pinned(of_host.storage().data());
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  if (destination.numel() == 0) return destination;
  if (source.is_cpu() && waits_for(source, non_blocking)) note_wait("a copy from memory of the host");
  if (destination.is_cpu() && waits_for(destination, non_blocking)) note_wait("a copy to the host");
  TORCH_CHECK(!is_recording() || (on_device(source) && on_device(destination)),
              "strict device: a copy from or to memory of the host, which will hold something else when the "
              "recording is replayed");
  if (on_device(source) && destination.is_cpu() && is_late(source.device())) {
    // As on CUDA nobody holds the device's memory until the copy is done: freeing it too early copies
    // whatever is there by then. Until then the host sees no numbers.
    std::memset(destination.mutable_data_ptr(), 0xff, destination.nbytes());
    hand_late(source.device(), [from = borrowed(source), destination] {
      OpenMemory opened;
      destination.copy_(opened.alias(from));
    });
    note_launch("copy_");
    return destination;
  }
  const auto copy = [](const at::Tensor& from, const at::Tensor& into) {
    OpenMemory opened;
    const at::Tensor to = on_device(into) ? opened.alias(into) : into;
    to.copy_(on_device(from) ? opened.alias(from) : from);
    note_launch("copy_");
  };
  copy(source, destination);
  if (is_recording()) {
    record_step(
        [copy, from = KeptTensor(source), into = KeptTensor(destination)] { copy(from.get(), into.get()); });
  }
  return destination;
}

at::Scalar local_scalar(const at::Tensor& self) {
  note_wait("item");
  OpenMemory opened;
  return opened.alias(self).item();
}

// ---- registration

// The macro wants these names unqualified.
using at::native::_fused_sdp_choice_stub;
using at::native::_fused_sdp_choice_stub_DECLARE_DISPATCH_type;
using at::native::RegisterPRIVATEUSE1Dispatch;
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &choose_attention)

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_host_kernel>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resize);
  m.impl("_copy_from", &copy_from);
  m.impl("_local_scalar_dense", &local_scalar);
  // Views.
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  // Unknown devices get composites for these, CUDA has kernels.
  m.impl("_scaled_dot_product_fused_attention_overrideable", &attend);
  m.impl("_fused_rms_norm_backward", &rms_norm_backward);
  for (const char* op :
       {"native_layer_norm", "_fused_rms_norm", "mish_backward", "_grouped_mm", "_foreach_add.Scalar"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&run_host_kernel>());
  }
}

// ---- the device itself

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device to) const override {
    const c10::Device before = getDevice();
    setDevice(to);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current_device()}; }
  void setDevice(c10::Device to) const override {
    TORCH_CHECK(to.index() >= 0 && to.index() < kDevices, "strict device: there is no ", to);
    set_current_device(to.index());
  }
  void uncheckedSetDevice(c10::Device to) const noexcept override { set_current_device(to.index()); }
  c10::Stream getStream(c10::Device of) const override { return current_stream(of); }
  c10::Stream getDefaultStream(c10::Device of) const override {
    return c10::Stream(c10::Stream::DEFAULT, of);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool /*urgent*/) const override {
    return late_stream(of);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  // An event is a place in the late stream's work; null: in that of the first, which is done.
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex device,
              c10::EventFlag /*flag*/) const override {
    destroyEvent(*event, device);
    *event =
        stream == late_stream(stream.device()) ? new LatePlace(late_place(stream.device_index())) : nullptr;
  }
  void block(void* event, const c10::Stream& /*stream*/) const override {
    if (event != nullptr) reach(*static_cast<LatePlace*>(event));  // the device waits, not the host
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<LatePlace*>(event);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || is_reached(*static_cast<LatePlace*>(event));
  }
  bool queryStream(const c10::Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const c10::Stream& /*stream*/) const override { note_wait("synchronize"); }
  void synchronizeEvent(void* event) const override {
    note_wait("synchronize");
    block(event, current_stream({kType, current_device()}));
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    note_wait("synchronize");
    reach(late_place(device));
  }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
};

}  // namespace

void install() {
  static const bool kOnce = [] {
    c10::register_privateuse1_backend("strict");
    c10::SetAllocator(kType, device_allocator());
    c10::impl::registerDeviceGuard(kType, new Guard);
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    watch_for_touches();
    return true;
  }();
  static_cast<void>(kOnce);
}

c10::Device device(int index) { return {kType, static_cast<c10::DeviceIndex>(index)}; }

}  // namespace hooked::strict

/// A hooked::MultipliesGroups: as CUDA on cards that have the kernel.
extern "C" __attribute__((visibility("default"))) bool hooked_multiplies_groups_strict(int index,
                                                                                       at::ScalarType dtype) {
  return hooked::strict::multiplies_groups(index, dtype);
}
