#pragma once

#include <functional>
#include <memory>

namespace hooked {

/// Work that was launched on a device once and can be launched again as a whole: the same kernels on the same
/// memory, for the price of one launch (on CUDA a graph).
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual ~Recording() = default;

  /// Launches the work, after everything that was launched on the device before.
  virtual void replay() = 0;
};

/// Makes recordings for one device. Used by one thread at a time.
class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  virtual ~Recorder() = default;

  using Work = std::function<void()>;

  /// Does the work where `record` will do it, so that what LibTorch creates at first use there is created now
  /// and not recorded.
  virtual void warm_up(const Work& work) = 0;
  /// Records what the work launches; its tensors keep their memory for as long as the recording lives. The
  /// work must read nothing from the device or the host. Whether it is also executed is the device's choice.
  /// Throws what the work throws, and c10::Error for what cannot be recorded.
  virtual std::unique_ptr<Recording> record(const Work& work) = 0;
};

/// A function that makes the recorder of the device with that index among those of its kind.
using MakeRecorder = Recorder* (*)(int index);

}  // namespace hooked
