#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace hooked::strict {

/// Any operator: its tensors become aliases on the CPU, the CPU's kernel runs, and its results become
/// tensors of the device. Throws c10::Error for tensors of several devices.
void run_host_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace hooked::strict
