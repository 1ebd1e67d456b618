#pragma once

#include <map>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/hooks/address.h"

namespace hooked {

/// A sender: the block of an activation without its positions.
struct PathSender {
  Address place;
  bool begins_stream;  ///< the embeddings, or one of them
};

/// Which senders come before which receivers on a model's streams.
class PathOrder {
 public:
  explicit PathOrder(const ModelConfig& config);

  /// Whether a sublayer adds this to a stream: z of heads, or the whole.
  bool is_written(const ActivationName& name) const { return written_.contains(name); }
  /// Whether what the sender writes is in the stream that the receiver, a full name, reads.
  bool leads_to(const PathSender& sender, const Address& receiver) const;

  /// Throws HookError for a sender that no receiver reads.
  void require_readers(const std::vector<PathSender>& senders, const std::vector<Address>& receivers) const;
  /// Throws HookError for a receiver that reads no sender.
  void require_writers(const std::vector<PathSender>& senders, const std::vector<Address>& receivers) const;

 private:
  /// A step of a stream.
  struct Place {
    Stack stream;
    std::ptrdiff_t step;
  };
  void follow(const ModelConfig& config, Stack stream);
  Place written(const PathSender& sender) const;

  Stack first_stream_;  // the stream that the embeddings begin
  std::map<ActivationName, Place> written_, read_;
};

bool is_of_heads(Site site);
bool is_head_input(Site site);
/// Whether this reads the end of an encoder's stream.
bool is_of_source(Site site);

}  // namespace hooked
