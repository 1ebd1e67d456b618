#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace hooked {

/// Memory for activations that is kept mapped between runs.
///
/// Fresh pages cost more than the arithmetic that fills them: a run that keeps 100 MB of activations would
/// spend a third of its time in page faults. Tensors made here return their memory to the workspace when the
/// last handle goes, from whatever thread, also after the model is gone. Never more idle memory is held than
/// was once in use at a time.
class Workspace {
 public:
  Workspace();

  /// An uninitialised CPU tensor. Small ones, and tensors of other devices, come from LibTorch's own
  /// allocator.
  at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) const;

 private:
  class Blocks;
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace hooked
