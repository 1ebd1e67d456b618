#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooked/analysis/answers.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/head_place.h"
#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// Which logit is expanded, to what order, and where. For designated initialisers.
struct PathExpansionOptions {
  Answers answer = {};                            ///< the token whose logit is expanded; for a set the mean
  std::optional<Answers> against = std::nullopt;  ///< subtracted from it, if given
  std::int64_t order = 2;  ///< most heads that a path goes through; longer paths are the remainder
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
};

/// A logit (difference) split by the paths from what enters the stream to the logits (Elhage et al. 2021,
/// "path expansion"): a Grid [row, source, path, pos] in logits, NaN if the position is padding.
///
/// With patterns, gates and the scales of norms (including those of values and of latents) as they were in
/// the run, heads are linear in the stream, so the run's logit is a sum over all chains of heads in ever
/// later layers. A path is `direct`, one head `0.1`, or several, `0.1 > 1.2` (a virtual head); `remainder` is
/// the contribution of longer paths. What enters the stream is a source: `embed`, `pos_embed`,
/// `token_type_embed`; `bias`, everything that does not depend on any token (the constant part of a head's
/// values enters with the path's first head); and, if the model has them, `mlp 0`, `cross attn 0`, ..: MLPs
/// and cross-attention are not part of any path, but what they wrote in the run is where paths begin. All
/// numbers of a row and a position add up to the run's logit (difference), before any soft cap, in every
/// model. The source `remainder` is the rest of the stream: rounding, or what edits put there; it has a
/// number only on the path `remainder`.
///
/// Needs pattern of every layer, and what else is held, at all positions in addition to what residual_parts
/// needs there. Throws as direct_logit_attribution; HookError for clipped values, which are not a matrix
/// times the stream, and after a prefix; ShapeError for an order below 0 or more than a million paths.
Grid path_expansion(const HookedTransformer& model, const ActivationCache& cache,
                    const PathExpansionOptions& options);

/// Where path_logits reads. For designated initialisers.
struct PathLogitsOptions {
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
};

/// What one path adds to every logit: a Grid [row, source, pos, vocab] with the sources of path_expansion,
/// whose numbers are the answers' logits of this grid. `path` is the heads from first to last, each in a
/// later layer than the one before it; empty: the direct path. Only that has the source `remainder`, the
/// run's logits minus all paths: rounding, or the effect of hooks and edits on the stream or after it, as far
/// as the cache shows it. So all paths of every order add up to the run's logits before any soft cap. Throws
/// as path_expansion, and ShapeError for heads that do not exist or are out of order.
Grid path_logits(const HookedTransformer& model, const ActivationCache& cache,
                 const std::vector<HeadPlace>& path, const PathLogitsOptions& options = {});

}  // namespace hooked
