#include "tests/support/strict_device/recorder.h"

#include <c10/core/GradMode.h>

#include <memory>
#include <utility>
#include <vector>

#include "models/recorder.h"
#include "tests/support/strict_device/counts.h"

namespace hooked::strict {
namespace {

thread_local std::vector<Step>* recording_of_thread = nullptr;

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
      ~Scope() { recording_of_thread = nullptr; }
    } const scope(steps);
    work();
    return std::make_unique<StrictRecording>(std::move(steps));
  }
};

}  // namespace

bool is_recording() noexcept { return recording_of_thread != nullptr; }

void record_step(Step step) {
  if (recording_of_thread != nullptr) recording_of_thread->push_back(std::move(step));
}

}  // namespace hooked::strict

/// A hooked::MakeRecorder: found by its name.
extern "C" __attribute__((visibility("default"))) hooked::Recorder* hooked_recorder_strict(int /*index*/) {
  return new hooked::strict::StrictRecorder;
}
