#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "hooked/hooks/activation_cache.h"

namespace hooked {

/// One cache of what is computed in stretches of columns, from left to right: each activation along its pos
/// or query axis, or that of an expert's tokens.
///
/// Each activation lies in one tensor with room to grow, into which a stretch is copied: memory doubles where
/// it is full, so that the work of all stretches together is that of copying the result once or twice.
class GrowingCache {
 public:
  /// Adds what the next stretch computed. Throws HookError for an activation that has other rows, another
  /// dtype or device than in the stretches before it, or that somebody has written into.
  void append(const ActivationCache& stretch);

  /// All of it. Rows of scores and patterns of earlier stretches end with -inf and 0 for the keys that they
  /// could not see yet.
  ActivationCache take();

 private:
  struct Grown {
    ActivationName name;
    at::Tensor room = {};      ///< the value's axes, with room along those that grow
    std::int64_t columns = 0;  ///< in use along the sequence's axis
    std::int64_t keys = 0;     ///< in use along the key axis, where there is one
    std::vector<std::int64_t> positions = {};
    std::vector<at::Tensor> row_positions = {};
    std::int64_t stretches = 0;
  };

  void append(Grown& grown, const ActivationCache::Entry& entry) const;
  std::optional<TokenColumns> joined_columns() const;

  Stacks stacks_;  ///< of the model, as the first stretch knows them
  std::optional<TokenColumns> encoder_columns_;
  std::vector<Grown> grown_;  ///< in firing order
  std::unordered_map<ActivationName, std::size_t> numbers_;
  std::vector<std::optional<TokenColumns>> columns_;  ///< of each stretch
};

}  // namespace hooked
