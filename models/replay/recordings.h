#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hooked/hooks/activation_cache.h"
#include "models/replay/recorder.h"
#include "models/sequence/kv_cache.h"

namespace hooked {

/// What a run came to on its device.
struct Computed {
  at::Tensor output;                              ///< undefined: none was asked for
  ActivationCache cache;                          ///< what it kept
  std::optional<KvCache> columns = std::nullopt;  ///< keys and values that it leaves to later runs
};

/// The recorded runs of one model. Any thread may use them, one at a time.
///
/// At small batches a GPU waits for the host, which needs longer to hand out a run's kernels than the GPU to
/// compute them. So a run that is asked for the second time is recorded, and from the third time on replayed:
/// what it reads is copied into memory of the recording, and what it made is copied out of it, in one piece.
class Recordings {
 public:
  explicit Recordings(std::unique_ptr<Recorder> recorder);
  ~Recordings();

  using Inputs = std::vector<at::Tensor>;
  /// Computes from tensors like the inputs, on the model's device: always the same kernels, as far as the key
  /// tells. Nothing that it gives back may be written into.
  using Work = std::function<Computed(const Inputs&)>;

  /// A run that may be recorded.
  struct Asked {
    std::string key;  ///< everything that its kernels depend on but the numbers in `inputs`
    Inputs inputs;    ///< one at least, the first of which is on the device
    /// So many of the last inputs are never written into by anybody, so that their numbers are copied into
    /// the recording only where they are other tensors than the last time.
    std::size_t frozen = 0;
    /// What the work reads and writes besides, always at the same place; null: nothing.
    std::shared_ptr<const void> memory = nullptr;
  };

  /// What `work` makes of the inputs. Where such runs turned out not to be recordable, or there was no memory
  /// for the recording, `refusal` says why. Throws what the work throws, and c10::Error where there is no
  /// memory for what a replay hands out.
  Computed run(const Asked& asked, const Work& work, std::string& refusal);

  /// Lets go what reads and writes that memory.
  void forget(const void* memory);

  /// Lets all recordings and their memory go; whether there were any. What ran before counts as not having
  /// run. Not to be called from within work.
  bool release();

 private:
  class OutputBlock;
  struct Recorded;
  struct Kind;

  /// The kind of that key, as the one used last.
  Kind& kind(const std::string& key);
  void record(Recorded& made, const Asked& asked, const Work& work);
  /// Those that were not used for longest, where all together take too much memory.
  void drop_oldest();

  std::mutex mutex_;  // of all that follows
  std::unique_ptr<Recorder> recorder_;
  std::list<Kind> kinds_;  // those used last in front
};

}  // namespace hooked
