#pragma once

#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/site.h"

namespace hooked {

// What senders write and receivers read of a model's streams, in the order in which the streams meet it.

bool is_of_heads(Site site);
bool is_head_input(Site site);
/// Whether that reads the end of an encoder's stream.
bool is_of_source(Site site);
/// Whether this is what a stream begins with, or a part of it.
bool begins_stream(const ActivationName& name, const ModelConfig& config);

/// A sender: the block of an activation without its positions.
struct PathSender {
  Address place;
  bool begins_stream;  ///< the embeddings, or one of them
};

/// Whether what the sender writes is in the stream that the receiver, a full name, reads.
bool leads_to(const PathSender& sender, const Address& receiver, const ModelConfig& config);

/// Throws HookError for a sender that no receiver reads.
void require_readers(const std::vector<PathSender>& senders, const std::vector<Address>& receivers,
                     const ModelConfig& config);
/// Throws HookError for a receiver that reads no sender.
void require_writers(const std::vector<PathSender>& senders, const std::vector<Address>& receivers,
                     const ModelConfig& config);

}  // namespace hooked
