#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "hooked/analysis/path_patching.h"
#include "hooked/core/model_config.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/point_index.h"

namespace hooked {

/// A sender: the block of an activation without its positions.
struct PathSender {
  Address place;
  bool begins_stream;  ///< the embeddings, or one of them
};

/// The senders and receivers of path patching, and which of them are patched together.
class PathSets {
 public:
  using Set = std::vector<std::size_t>;  ///< numbers of senders or of receivers

  /// Throws HookError for a sender that writes to no stream, a receiver that reads none, or one on no path.
  PathSets(const ModelConfig& config, const PathPatchingOptions& options);

  const std::vector<PathSender>& senders() const { return senders_; }
  const std::vector<Address>& receivers() const { return receivers_; }
  /// What stays unchanged while the senders change, by full names.
  const std::vector<ActivationName>& frozen() const { return frozen_; }
  bool is_frozen(const ActivationName& name) const;
  /// One set per sender if cells are for each sender, else one set of all; receivers likewise.
  const std::vector<Set>& sender_sets() const { return sender_sets_; }
  const std::vector<Set>& receiver_sets() const { return receiver_sets_; }

  /// Whether a path leads from one of these senders to one of these receivers.
  bool leads(const Set& senders, const Set& receivers) const;
  /// The first block of the stack that predicts in which these senders change something; nothing: what comes
  /// before its first block.
  std::optional<std::int32_t> first_layer(const Set& senders) const;
  bool in_main_blocks(const ActivationName& name) const;
  /// Whether senders from there on can change what a receiver reads.
  bool is_behind(const Address& receiver, std::optional<std::int32_t> first) const;

 private:
  /// A step of a stream.
  struct Place {
    Stack stream;
    std::ptrdiff_t step;
  };
  /// Finds where a stream's parts write to it and read it, and which of them stay unchanged.
  void follow(Stack stream, PathThrough through);
  /// Whether what the sender writes is in the stream that the receiver, a full name, reads.
  bool leads_to(const PathSender& sender, const Address& receiver) const;
  ActivationName full_name(const Address& given) const;
  Address with_head(const ActivationName& name, const Address& given, bool heads, const char* what) const;
  void find_senders(const PathPatchingOptions& options);
  void find_receivers(const PathPatchingOptions& options);
  void require_paths(const PathPatchingOptions& options) const;

  ModelConfig config_;
  PointIndex points_;
  std::map<ActivationName, Place> written_, read_;
  std::vector<PathSender> senders_;
  std::vector<Address> receivers_;
  std::vector<ActivationName> frozen_;
  std::vector<Set> sender_sets_, receiver_sets_;
};

}  // namespace hooked
