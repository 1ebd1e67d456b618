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

/// One cache of activations that are computed in stretches of columns, from left to right: each is joined
/// along its pos or query axis, or along that of an expert's tokens.
///
/// Each activation is in one tensor with room to grow, into which stretches are copied. When it is full its
/// memory doubles, so that all stretches together cost about one or two copies of the result.
class GrowingCache {
 public:
  /// Copies `at_once` stretches together, for activations without a key axis: on a device each copy is a
  /// launch, and copying many stretches takes hardly longer than copying one. With a `transport` the tensors
  /// are on the host, and what stretches left on devices is sent in groups of that size: nobody waits before.
  explicit GrowingCache(std::size_t at_once = 1, std::shared_ptr<HostTransport> transport = nullptr)
      : at_once_(at_once), transport_(std::move(transport)) {}

  /// Adds what the next stretch computed. Throws HookError for an activation whose rows, dtype or device
  /// differ from the earlier stretches or that somebody has written into, and for a stretch of another
  /// model.
  void append(const ActivationCache& stretch);

  /// The whole cache. In scores and patterns of earlier stretches, keys that they could not see yet are -inf
  /// and 0.
  ActivationCache take();

 private:
  struct Grown {
    ActivationName name;
    at::Tensor room = {};                        ///< the value's axes, with room along those that grow
    std::int64_t columns = 0;                    ///< in use along the sequence's axis
    std::int64_t keys = 0;                       ///< in use along the key axis, if there is one
    std::vector<std::int64_t> positions = {};    ///< of all stretches, if rows share them
    std::vector<at::Tensor> row_positions = {};  ///< else of each row
    std::int64_t stretches = 0;
    bool own = false;  ///< the room was allocated here, and is not the first stretch
    std::vector<ActivationCache::Entry> waiting =
        {};                                 ///< stretches still to be copied after the room's contents
    std::vector<LateTensor> arriving = {};  ///< before these: stretches on their way to the host
  };

  void append(Grown& grown, const ActivationCache::Entry& entry, const ActivationCache& stretch) const;
  /// Records which columns the next stretch of an activation holds.
  static void append_positions(Grown& grown, const ActivationCache::Entry& entry,
                               const ActivationCache& stretch);
  /// Copies `value` after the room's contents, and enlarges the room if necessary. The first value becomes
  /// the room.
  static void put(Grown& grown, const at::Tensor& value);
  static void put_waiting(Grown& grown);
  /// Sends what is waiting on devices to the host, in one piece.
  void send_waiting();
  /// Waits for what was sent and appends it to the rooms.
  void put_arriving();
  std::optional<TokenColumns> joined_columns() const;

  std::size_t at_once_;
  std::shared_ptr<HostTransport> transport_;
  std::size_t waiting_ = 0, waiting_bytes_ = 0;  ///< stretches not sent yet, and their bytes
  Stacks stacks_;                                ///< of the model, as the first stretch gives them
  std::optional<TokenColumns> encoder_columns_;
  std::shared_ptr<const ModelIdentity> model_;  ///< that made all stretches; null: unknown
  std::vector<Grown> grown_;                    ///< in firing order
  std::unordered_map<ActivationName, std::size_t> numbers_;
  std::vector<std::optional<TokenColumns>> columns_;  ///< of each stretch
};

}  // namespace hooked
