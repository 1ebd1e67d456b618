#pragma once

#include <cstdint>
#include <vector>

#include "models/attention/latent_projection.h"
#include "models/sequence/kv_cache.h"
#include "models/sequence/sequence.h"

namespace hooked {

/// How one run reads and remembers the columns of one layer of latent attention (Note [Remembered latents]):
/// in which form its queries meet keys, and in which form its own columns are kept for later runs. Columns
/// that earlier runs kept as latents become keys and values if this run needs those.
class LatentKeys {
 public:
  /// `heads_may_change`: something may change keys or values after the latents, or read gradients there.
  LatentKeys(const LatentProjection& projection, std::int64_t layer, const Sequence& sequence,
             bool heads_may_change, Memory memory);

  /// Whether queries are multiplied with latents directly, so that nobody here needs keys and values.
  bool absorbed() const noexcept { return absorbed_; }
  /// Whether latents of the run's own columns are needed, with rotary applied to the shared parts.
  bool takes_own_latents() const noexcept { return absorbed_ || (remembers_ && kept_); }

  /// Appends one part's own columns to the layer and returns everything its queries attend to, as segments of
  /// columns from left to right.
  std::vector<KeysAndValues> append(std::size_t part, const Heads& own) const;

 private:
  const Sequence& sequence_;
  std::int64_t layer_;
  bool kept_;       // this run's columns are kept for later runs
  bool remembers_;  // as latents
  bool absorbed_;
  std::vector<KeysAndValues> past_;  // as heads; empty if queries are multiplied with latents
};

}  // namespace hooked
