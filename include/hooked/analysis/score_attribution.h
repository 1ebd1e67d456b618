#pragma once

#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"
#include "hooked/analysis/residual.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// Which attention score is taken apart. For designated initialisers.
struct ScoreAttributionOptions {
  /// Of one head: act::attn_scores(1).head(3), an encoder's act::attn_scores.encoder(1).head(3), or
  /// act::cross_attn_scores(1).head(3), whose keys are what the encoder read.
  Address scores;
  Grain grain = Grain::layer;                          ///< the parts of the stream, on both sides
  ValueBiases value_biases = ValueBiases::in_heads;    ///< where a head's value bias counts
  std::vector<Position> queries = {Position::last()};  ///< the queries; empty: all columns
  std::vector<Position> keys = {};                     ///< the keys; empty: all columns
};

/// Splits attention scores by what wrote the query's stream and what wrote the key's: a Grid [row,
/// query_part, key_part, query, key], NaN if a position is padding.
///
/// With the scales of the norms on the way (ln1, of queries and keys, of latents) taken from the run, queries
/// and keys are linear in the stream, and a score is a bilinear form of the two: part i and part j give q_i .
/// k_j / attn_scale. The numbers of one query and one key add up to the run's score before any cap and mask.
/// Rotary positions are those of the run.
///
/// Parts are those of residual_parts at what the head reads: resid_pre; for cross-attention cross_attn_in and
/// the end of the encoder's stream. An encoder's have the prefix `encoder `. In addition, both sides have
/// `bias`, what queries and keys have without any stream (biases of the norms and of the projections,
/// shortformer's positions), and `remainder`. If the model adds to scores by distance (ALiBi, relative
/// positions), both have `position bias`: that number where the two meet, and 0 with every other part. A cap
/// comes before it: the run's score is cap(sum of all other numbers) + position bias. The bias is 0 for keys
/// that ALiBi's query may not see.
///
/// The model itself computes what a part becomes, in runs that start with the head's stream, with the norms'
/// scales held. Needs what residual_parts needs of that stream, the scales of its norms, relative biases, and
/// q and k (rot_q and rot_k, or normalized ones, if they exist) in the cache. Throws HookError if one is
/// missing, after a prefix, and if queries and keys are clipped; ShapeError for positions that do not fit.
/// (Elhage et al. 2021, "QK circuit".)
Grid score_attribution(const HookedTransformer& model, const ActivationCache& cache,
                       const ScoreAttributionOptions& options);

}  // namespace hooked
