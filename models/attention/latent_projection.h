#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/attention/heads.h"
#include "models/graph/graph.h"
#include "models/graph/norm.h"
#include "models/graph/token_mixer.h"
#include "models/sequence/kv_cache.h"
#include "models/sequence/sequence.h"

namespace hooked {

/// Heads from latents (DeepSeek-AI 2024, DeepSeek-V2): one product computes everything read from the stream;
/// after the latents' norms, one more makes the queries and one the keys' own part and the values.
class LatentProjection : public HeadProjection {
 public:
  LatentProjection(torch::nn::Module& attention, const GraphContext& context);

  Heads project(const AttentionInput& input, Run& run) const override;
  WeightSlots slots(const std::string& path) const override;

  /// Queries, and what keys and values are made from, but not keys and values.
  Heads project_to_latents(const AttentionInput& input, Run& run) const;

  // Note [Remembered latents]
  // If only rotary comes between the latents and attention, it suffices to remember a column's latent and its
  // rotated shared part. With keys k = W_UK^T c and values v = W_UV^T c of a latent c, a score q k = (W_UK q)
  // c: queries can be multiplied with latents, as with one head that all of them read, and sums of latents
  // become sums of values by W_UV. Per query and column that is more work than with keys and values; with few
  // queries, computing these for all columns is more.

  /// Whether keys and values follow from latents in this way, and latents take less memory.
  bool can_remember_latents() const;
  /// The heads' keys and values from latents.
  KeysAndValues heads_of(const KeysAndValues& latents, Memory memory) const;
  /// Rotated queries [batch, pos, head, d_head] in the form that is multiplied with latents, [batch, pos,
  /// head, kv_latent + d_shared_key].
  at::Tensor queries_of_latents(const at::Tensor& q, Memory memory) const;
  /// Sums of values [batch, pos, head, d_value] from sums of latents, [batch, pos, head, kv_latent].
  at::Tensor sums_of_values(const at::Tensor& sums, Memory memory) const;
  /// Multiplications needed for one column's keys and values.
  std::int64_t multiplications_of_heads() const;
  /// How many more multiplications a query needs for a column as a latent than for its keys and values; may
  /// be negative.
  std::int64_t more_for_a_latent() const;

 private:
  /// Keys and values from latents [batch, pos, kv_latent] and shared parts [batch, pos, 1, d_shared_key].
  Heads made_of(const at::Tensor& latent, const at::Tensor& shared, Memory memory) const;
  Matrix key_maps() const;    ///< [head * own part of d_head, latent]
  Matrix value_maps() const;  ///< [head * width of values, latent]

  /// Width of the queries, or of what they are made from: all heads, or their latent.
  std::int64_t query_width() const;

  const ModelConfig& config_;
  Matrix W_down_;  // [(latent of queries, or head * d_head) + latent of keys and values + shared, d_model]
  at::Tensor b_down_;  // the same without d_model; undefined without one
  Matrix W_UQ_;        // [head * d_head, latent]; undefined if queries have no latent
  Matrix W_UKV_;       // [head * (own part of d_head), then head * (width of values), latent]
  std::shared_ptr<Norm> q_norm_, kv_norm_;
  Point hook_q_latent_, hook_kv_latent_, hook_k_shared_;
};

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
