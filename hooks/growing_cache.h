#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/late_tensor.h"

namespace hooked {

class HostTransport;

/// One cache of what is computed in stretches of columns, from left to right: each activation along its pos
/// or query axis, or that of an expert's tokens.
///
/// Each activation lies in one tensor with room to grow, into which a stretch is copied: memory doubles where
/// it is full, so that the work of all stretches together is that of copying the result once or twice.
class GrowingCache {
 public:
  /// Copies so many stretches together, of activations without a key axis: on a device each copy is a launch,
  /// and one of many stretches takes hardly longer than one of one. With a `transport` the tensors lie on the
  /// host, where what stretches leave on devices is taken as many stretches at a time: nobody waits before.
  explicit GrowingCache(std::size_t at_once = 1, std::shared_ptr<HostTransport> transport = nullptr)
      : at_once_(at_once), transport_(std::move(transport)) {}

  /// Adds what the next stretch computed. Throws HookError for an activation that has other rows, another
  /// dtype or device than in the stretches before it, or that somebody has written into, and for a stretch of
  /// another model.
  void append(const ActivationCache& stretch);

  /// All of it. Rows of scores and patterns of earlier stretches end with -inf and 0 for the keys that they
  /// could not see yet.
  ActivationCache take();

 private:
  struct Grown {
    ActivationName name;
    at::Tensor room = {};                        ///< the value's axes, with room along those that grow
    std::int64_t columns = 0;                    ///< in use along the sequence's axis
    std::int64_t keys = 0;                       ///< in use along the key axis, where there is one
    std::vector<std::int64_t> positions = {};    ///< of all stretches, where rows share them
    std::vector<at::Tensor> row_positions = {};  ///< else of each
    std::int64_t stretches = 0;
    bool own = false;  ///< the room was made here, and is not the first stretch
    std::vector<ActivationCache::Entry> waiting =
        {};                                 ///< stretches that are still to be copied behind the room's
    std::vector<LateTensor> arriving = {};  ///< before these: stretches on their way to the host
  };

  void append(Grown& grown, const ActivationCache::Entry& entry, const ActivationCache& stretch) const;
  /// Which columns the next stretch of an activation holds.
  static void append_positions(Grown& grown, const ActivationCache::Entry& entry,
                               const ActivationCache& stretch);
  /// Copies `value` behind what the room holds, and makes the room larger where it has to be. The first is
  /// the room.
  static void put(Grown& grown, const at::Tensor& value);
  static void put_waiting(Grown& grown);
  /// Sends what is waiting on devices to the host, in one piece.
  void send_waiting();
  /// Copies what was sent behind the rooms: waits for it.
  void put_arriving();
  std::optional<TokenColumns> joined_columns() const;

  std::size_t at_once_;
  std::shared_ptr<HostTransport> transport_;
  std::size_t waiting_ = 0, waiting_bytes_ = 0;  ///< stretches that are not sent yet, and what they hold
  Stacks stacks_;                                ///< of the model, as the first stretch knows them
  std::optional<TokenColumns> encoder_columns_;
  std::shared_ptr<const ModelIdentity> model_;  ///< that made all stretches; null: not known
  std::vector<Grown> grown_;                    ///< in firing order
  std::unordered_map<ActivationName, std::size_t> numbers_;
  std::vector<std::optional<TokenColumns>> columns_;  ///< of each stretch
};

}  // namespace hooked
