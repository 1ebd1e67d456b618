#include "tests/support/strict_device/recorder.h"

#include <c10/core/GradMode.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "models/replay/recorder.h"
#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/memory.h"

namespace hooked::strict {
namespace {

thread_local std::vector<Step>* recording_of_thread = nullptr;
thread_local std::set<const c10::StorageImpl*> allocated_by_recording;

class StrictRecording final : public hooked::Recording {
 public:
  explicit StrictRecording(std::vector<Step> steps) : steps_(std::move(steps)) {}
  void replay() override {
    const at::NoGradGuard no_grad;
    {
      const Uncounted within;
      for (const Step& step : steps_) step();
    }
    note_launch("a recording");
  }

 private:
  std::vector<Step> steps_;
};

class StrictRecorder final : public Recorder {
 public:
  void warm_up(const Work& work) override { work(); }

  std::unique_ptr<hooked::Recording> record(const Work& work) override {
    std::vector<Step> steps;
    struct Scope {
      explicit Scope(std::vector<Step>& into) { recording_of_thread = &into; }
      ~Scope() {
        recording_of_thread = nullptr;
        allocated_by_recording.clear();
      }
    } const scope(steps);
    work();
    return std::make_unique<StrictRecording>(std::move(steps));
  }
};

}  // namespace

bool is_recording() noexcept { return recording_of_thread != nullptr; }

void note_allocated(const at::Tensor& tensor) {
  if (is_recording()) allocated_by_recording.insert(tensor.storage().unsafeGetStorageImpl());
}

KeptTensor::KeptTensor(at::Tensor tensor) {
  const bool outside = tensor.defined() && on_device(tensor) && tensor.numel() > 0 &&
                       !allocated_by_recording.contains(tensor.storage().unsafeGetStorageImpl());
  if (!outside) {
    own_ = std::move(tensor);
    return;
  }
  storage_.emplace(c10::Storage(tensor.storage()).getWeakStorageImpl());
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
  offset_ = tensor.storage_offset();
  keys_ = tensor.key_set();
  dtype_ = tensor.dtype();
}

at::Tensor KeptTensor::get() const {
  if (!storage_) return own_;
  auto storage = storage_->lock();
  TORCH_CHECK(storage.defined(), "strict device: a recording reads memory that was freed since, of sizes ",
              at::IntArrayRef(sizes_));
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), keys_, dtype_);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes_, strides_, offset_);
  return tensor;
}

void record_step(Step step) {
  if (recording_of_thread != nullptr) recording_of_thread->push_back(std::move(step));
}

}  // namespace hooked::strict

/// A hooked::MakeRecorder: found by its name.
extern "C" __attribute__((visibility("default"))) hooked::Recorder* hooked_recorder_strict(int /*index*/) {
  return new hooked::strict::StrictRecorder;
}
