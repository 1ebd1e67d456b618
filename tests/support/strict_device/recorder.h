#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

/// The work given to the strict device, kept so that it can be repeated: this is how it records runs.
namespace hooked::strict {

/// One piece of work of the device, in a form that can be repeated.
using Step = std::function<void()>;

/// Whether this thread is recording.
bool is_recording() noexcept;
/// Adds the work just done to the recording of this thread, if it has one.
void record_step(Step step);

/// Notes that this thread's recording, if it has one, allocated the storage.
void note_allocated(const at::Tensor& tensor);

/// A tensor as a step keeps it. Memory that the recording allocated lives as long as the recording; what
/// existed before belongs to somebody else, as on CUDA, and must exist whenever the step is repeated.
class KeptTensor {
 public:
  /// While it is recorded.
  explicit KeptTensor(at::Tensor tensor);
  /// Throws c10::Error if its memory was freed.
  at::Tensor get() const;

 private:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

  at::Tensor own_;               // undefined: of memory that existed before
  std::optional<Weak> storage_;  // of that
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_ = 0;
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta dtype_;
};

}  // namespace hooked::strict
