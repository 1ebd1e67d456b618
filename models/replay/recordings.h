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

/// The results of a run, on its device.
struct Computed {
  at::Tensor output;                              ///< undefined: none was asked for
  ActivationCache cache;                          ///< what it kept
  std::optional<KvCache> columns = std::nullopt;  ///< keys and values that it leaves to later runs
};

/// The recorded runs of one model. Any thread may use them, one at a time.
///
/// At small batches a GPU waits for the host, which takes longer to launch a run's kernels than the GPU to
/// compute them. So the second time a run is requested it is recorded, and from the third time on replayed:
/// its inputs are copied into the recording's memory, and its results are copied out of it, in one piece.
class Recordings {
 public:
  explicit Recordings(std::unique_ptr<Recorder> recorder);
  ~Recordings();

  using Inputs = std::vector<at::Tensor>;
  /// Computes from tensors like the inputs, on the model's device: always the same kernels for the same key.
  /// Nobody may write into its results.
  using Work = std::function<Computed(const Inputs&)>;

  /// A run that may be recorded.
  struct Asked {
    std::string key;  ///< everything that its kernels depend on except the numbers in `inputs`
    Inputs inputs;    ///< at least one; the first is on the device
    /// This number of inputs, the last ones, is never written into by anybody, so that their numbers are
    /// copied into the recording only if they are other tensors than the last time.
    std::size_t frozen = 0;
    /// What else the work reads and writes, always at the same place; null: nothing.
    std::shared_ptr<const void> memory = nullptr;
  };

  /// What `work` computes from the inputs. If such runs turned out not to be recordable, or there was no
  /// memory for the recording, `refusal` says why. Throws what the work throws, and c10::Error if there is no
  /// memory for the results of a replay.
  Computed run(const Asked& asked, const Work& work, std::string& refusal);

  /// Forgets the recordings that read and write that memory.
  void forget(const void* memory);

  /// Frees all recordings and their memory; returns whether there were any. What ran before counts as not
  /// having run. Must not be called from within work.
  bool release();

 private:
  class OutputBlock;
  struct Recorded;
  struct Kind;

  /// The kind with that key, marked as last used.
  Kind& kind(const std::string& key);
  void record(Recorded& made, const Asked& asked, const Work& work);
  /// Drops the least recently used ones, if all together take too much memory.
  void drop_oldest();

  std::mutex mutex_;  // guards the members below
  std::unique_ptr<Recorder> recorder_;
  std::list<Kind> kinds_;  // the last used first
};

}  // namespace hooked
