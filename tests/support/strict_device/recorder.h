#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

/// What the strict device is handed, kept so that it can be handed out again: how it records runs.
namespace hooked::strict {

/// One thing that the device was handed, as it can be done again.
using Step = std::function<void()>;

/// Whether this thread is recording.
bool is_recording() noexcept;
/// Adds what was just done to the recording of this thread, if there is one.
void record_step(Step step);

/// Says that the storage was allocated by this thread's recording, if there is one.
void note_allocated(const at::Tensor& tensor);

/// A tensor as a step keeps it. Memory that the recording allocated lives as long as the recording; what was
/// there before is somebody else's, as on CUDA, and has to be there whenever the step is done again.
class KeptTensor {
 public:
  /// While it is recorded.
  explicit KeptTensor(at::Tensor tensor);
  /// Throws c10::Error where its memory was let go.
  at::Tensor get() const;

 private:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

  at::Tensor own_;               // undefined: of memory that was there before
  std::optional<Weak> storage_;  // of that
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_ = 0;
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta dtype_;
};

}  // namespace hooked::strict
