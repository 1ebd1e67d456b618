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
  Address scores;                                      ///< of one head: act::attn_scores(1).head(3)
  Grain grain = Grain::layer;                          ///< the parts of the stream, on both sides
  ValueBiases value_biases = ValueBiases::in_heads;    ///< where a head's value bias counts
  std::vector<Position> queries = {Position::last()};  ///< who attends; empty: all columns
  std::vector<Position> keys = {};                     ///< what to; empty: all columns
};

/// Takes attention scores apart by what wrote the query's stream and what wrote the key's: a Grid
/// [row, query_part, key_part, query, key], NaN where a position is padding.
///
/// With the scales of the norms on the way (ln1, of queries and keys, of latents) taken from the run, queries
/// and keys are linear in the stream, and a score is a bilinear form of the two: part i and part j give
/// q_i . k_j / attn_scale. The numbers of one query and one key add up to the run's score before any cap,
/// position bias and mask. Parts are those of residual_parts at resid_pre; besides, `bias` is what queries
/// and keys have without any stream: biases of the norms and of the projections, shortformer's positions.
/// Both sides have a `remainder`. Rotary positions are those of the run.
///
/// The model itself says what a part becomes, in runs that start at the layer with the norms' scales held.
/// Needs what residual_parts needs for resid_pre of the layer, the scales of its norms, and q and k (rot_q
/// and rot_k, or normalized ones, where there are such) in the cache. Throws HookError where one is missing,
/// behind a prefix, for the encoder of two stacks, and where queries and keys are clipped; ShapeError for
/// positions that do not fit. (Elhage et al. 2021, "QK circuit".)
Grid score_attribution(const HookedTransformer& model, const ActivationCache& cache,
                       const ScoreAttributionOptions& options);

}  // namespace hooked
