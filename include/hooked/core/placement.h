#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hooked/core/block_place.h"
#include "hooked/core/export.h"
#include "hooked/core/model_config.h"

namespace HOOKED_EXPORT hooked {

/// On which device each part of a model is: all on one, or consecutive stretches of blocks, in the order in
/// which they run, on several. The embedding is with the first block. What comes after the last block is with
/// it, or with the embedding if the unembedding is tied to it.
class Placement {
 public:
  /// Everything on one device.
  Placement(const c10::Device& device);  // NOLINT: one device is a placement
  /// A device for each of `config.blocks()`.
  Placement(const ModelConfig& config, std::vector<c10::Device> of_blocks);

  /// Device of the embedding, where tokens go.
  c10::Device entry() const noexcept { return entry_; }
  /// Device of the final norm and the unembedding, where logits are computed.
  c10::Device exit() const noexcept { return exit_; }
  /// Device of a block; one past its stack's last block counts as the exit.
  c10::Device of(const BlockPlace& block) const;

  /// The number of the encoder's last layer; -1 without an encoder.
  std::int64_t last_encoder_layer() const noexcept { return n_encoder_layers_ - 1; }

  /// Whether there is more than one device.
  bool spread() const noexcept { return !of_blocks_.empty() && of_blocks_.front() != of_blocks_.back(); }
  /// All devices, in the order in which the stream passes them.
  std::vector<c10::Device> devices() const;
  /// A sentence saying which layers are where; empty with one device.
  std::string text() const;

 private:
  std::vector<c10::Device> of_blocks_;  // one, or one for each block: an encoder's, then those that predict
  std::int64_t n_encoder_layers_ = 0;
  c10::Device entry_, exit_;
};

/// Cuts consecutive blocks into `parts` stretches, such that the largest holds as few bytes as possible.
/// Returns the number of blocks in each, at least one. The first stretch also holds `before`, the last
/// `behind`. There are at least as many blocks as parts.
std::vector<std::int64_t> evenly_cut(const std::vector<std::int64_t>& block_bytes, std::int64_t parts,
                                     std::int64_t before, std::int64_t behind);

}  // namespace hooked
