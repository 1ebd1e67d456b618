#pragma once

#include <c10/core/Device.h>

/// A device as strict as a GPU, for machines without one: LibTorch's PrivateUse1 under the name `strict`.
///
/// Its memory is host memory that nothing but its own kernels may touch: outside of them the pages are
/// closed, so that a read or write by the host ends the process with a message. Fresh memory holds NaN.
/// Kernels are LibTorch's CPU kernels, called on aliases of the memory; like those of CUDA they refuse
/// tensors of several devices. Anything that would make the host wait for a GPU is counted (counts.h), and
/// refused while a Recording lives.
namespace hooked::strict {

/// The number of devices: `strict:0`, `strict:1` and `strict:2`.
inline constexpr int kDevices = 3;

/// Registers the device, once, for the life of the process. To be called before the first gradient:
/// LibTorch's threads for gradients are made for the devices that exist by then.
void install();

/// One of them.
c10::Device device(int index = 0);

}  // namespace hooked::strict
