#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hooked {

class SlabMemory;

/// Memory for activations that is kept mapped between runs, and for a model's weights: on large pages, where
/// a processor finds them faster.
///
/// Fresh pages cost more than the arithmetic that fills them: a run that keeps 100 MB of activations would
/// spend a third of its time in page faults. Tensors allocated here return their memory to the workspace when
/// the last handle is destroyed, from any thread, even after the model is gone. At most twice as much idle
/// memory is held as was recently in use at a time.
class Workspace {
 public:
  Workspace();

  /// An uninitialised CPU tensor. Small ones, and tensors on other devices, come from LibTorch's own
  /// allocator.
  at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) const;

  /// Returns the memory that no tensor uses to the system.
  void trim() const;
  /// Bytes of the system's memory that it holds.
  std::size_t mapped_bytes() const;

 private:
  std::shared_ptr<SlabMemory> memory_;
};

/// Uninitialised, from that workspace, or LibTorch's allocator without one.
inline at::Tensor empty_in(const Workspace* memory, at::IntArrayRef sizes, const at::TensorOptions& options) {
  return memory == nullptr ? at::empty(sizes, options) : memory->empty(sizes, options);
}

/// The sizes of `x` with the last one replaced.
inline std::vector<std::int64_t> with_last_size(const at::Tensor& x, std::int64_t last) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

/// Where operations put their results.
struct Memory {
  const Workspace* workspace;  ///< null: LibTorch's operators only
};

}  // namespace hooked
