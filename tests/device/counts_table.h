#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/support/strict_device/counts.h"

namespace hooked::device_tests {

/// The costs of kinds of runs of one golden checkpoint on the strict device, in float32.
struct CountedModel {
  std::string name;
  std::int64_t layers;
  strict::Counts run;          ///< of tokens on the host
  strict::Counts run_there;    ///< of tokens on the device
  strict::Counts cached;       ///< with all default points kept but those of single experts
  strict::Counts cached_here;  ///< the same, on the host
  strict::Counts block;        ///< what the last block adds to a plain run
  strict::Counts cached_block;
  std::vector<std::string> operators;            ///< of `block`, in order, as LibTorch names them
  std::optional<strict::Counts> replayed;        ///< of `cached`, where it can be recorded
  std::optional<strict::Counts> gradients;       ///< of the stream before each block
  std::optional<strict::Counts> step;            ///< of a greedy generation
  std::optional<strict::Counts> replayed_step;   ///< of what can be recorded
  std::optional<strict::Counts> sweep;           ///< over the stream before each block, at each position
  std::optional<strict::Counts> replayed_sweep;  ///< a later one of as many tokens
  std::int64_t cells = 0;                        ///< of that sweep
};

/// The checkpoints in docs/device-counts.md.
const std::vector<std::string>& counted_checkpoints();

CountedModel counted(const std::string& checkpoint);

}  // namespace hooked::device_tests
