#pragma once

#include <cstdint>
#include <vector>

#include "models/attention/latent_projection.h"
#include "models/sequence/kv_cache.h"
#include "models/sequence/sequence.h"

namespace hooked {

/// How one run reads and remembers the columns of one layer of latent attention (Note [Remembered latents]):
/// in which form its queries meet keys, and in which form its own columns are kept for later runs. Columns
/// that earlier runs kept as latents become keys and values where this run needs those.
class LatentKeys {
 public:
  /// `heads_may_change`: somebody may change keys or values behind the latents, or asks for gradients there.
  LatentKeys(const LatentProjection& projection, std::int64_t layer, const Sequence& sequence,
             bool heads_may_change, Memory memory);

  /// Whether queries are held against latents, so that nobody here needs keys and values.
  bool absorbed() const noexcept { return absorbed_; }
  /// Whether latents of the run's own columns are needed, with the shared parts turned.
  bool takes_own_latents() const noexcept { return absorbed_ || (remembers_ && kept_); }

  /// Appends one part's own columns to the layer and returns all that its queries attend to, segments of
  /// columns from left to right.
  std::vector<KeysAndValues> append(std::size_t part, const Heads& own) const;

 private:
  const Sequence& sequence_;
  std::int64_t layer_;
  bool kept_;       // this run's columns are, for later ones
  bool remembers_;  // as latents
  bool absorbed_;
  std::vector<KeysAndValues> past_;  // as heads; empty where queries are held against latents
};

}  // namespace hooked
