#pragma once

#include <functional>
#include <memory>

namespace hooked {

/// Work that a device was handed once and can be handed again as a whole: the same kernels on the same
/// memory, for the price of one launch (on CUDA a graph).
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual ~Recording() = default;

  /// Hands the work out, behind what the device has been handed before.
  virtual void replay() = 0;
};

/// What makes recordings for one device. Used by one thread at a time.
class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  virtual ~Recorder() = default;

  using Work = std::function<void()>;

  /// Does the work in the place where `record` will, so that what LibTorch makes when it is first used there
  /// is made, and not recorded.
  virtual void warm_up(const Work& work) = 0;
  /// Records what the work hands out; its tensors keep their memory for as long as the recording lives. The
  /// work reads nothing of the device and nothing of the host; whether it is also done is the device's
  /// choice. Throws what the work throws, and c10::Error for what cannot be recorded.
  virtual std::unique_ptr<Recording> record(const Work& work) = 0;
};

/// A function that makes the recorder of a device, which has that index among those of its kind.
using MakeRecorder = Recorder* (*)(int index);

}  // namespace hooked
