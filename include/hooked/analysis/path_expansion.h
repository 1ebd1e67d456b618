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

/// Which logit is expanded, how far and where. For designated initialisers.
struct PathExpansionOptions {
  Answers answer = {};                            ///< the token whose logit is expanded; of a set the mean
  std::optional<Answers> against = std::nullopt;  ///< subtracted from it, if given
  std::int64_t order = 2;  ///< heads that a path goes through at most; beyond them it is the remainder
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
};

/// A logit (difference) by the paths from what enters the stream to the logits (Elhage et al. 2021, "path
/// expansion"): a Grid [row, source, path, pos] in logits, NaN where the position is padding.
///
/// With patterns, gates and the scales of norms (those of values and of latents, too) as they were in the
/// run, heads are linear in the stream, so that the run's logit is a sum over all chains of heads of later
/// and later layers. A path is `direct`, one head `0.1`, or several, `0.1 > 1.2` (a virtual head);
/// `remainder` is what longer paths make. What enters the stream is a source: `embed`, `pos_embed`,
/// `token_type_embed`; `bias`, all that is there without any token (what is constant in a head's values
/// enters with the path's first head); and, where there are such, `mlp 0`, `cross attn 0`, ..: MLPs and
/// cross-attention are no part of any path, but what they wrote in the run is where paths begin. All numbers
/// of a row and a position add up to the run's logit (difference), before any soft cap, in every model. The
/// source `remainder` is what the stream holds besides: rounding, or what edits put there; it has a number on
/// the path `remainder` only.
///
/// Needs pattern of every layer, and what else is held, at all positions besides what residual_parts needs
/// there. Throws as direct_logit_attribution; HookError for clipped values, which are no matrix times the
/// stream, and behind a prefix; ShapeError for an order below 0 or of more than a million paths.
Grid path_expansion(const HookedTransformer& model, const ActivationCache& cache,
                    const PathExpansionOptions& options);

/// Where path_logits reads. For designated initialisers.
struct PathLogitsOptions {
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
};

/// What one path adds to every logit: a Grid [row, source, pos, vocab] of the sources of path_expansion,
/// whose answers' logits are the numbers that it gives. `path` is the heads from the first to the last, each
/// of a later layer than the one before it; none: the direct path. That alone has the source `remainder`,
/// what the run's logits are besides all paths: rounding, or what hooks and edits did to the stream or behind
/// it, as far as the cache shows it. So all paths of every order add up to the run's logits before any soft
/// cap. Throws as path_expansion, and ShapeError for heads that are not there or not in order.
Grid path_logits(const HookedTransformer& model, const ActivationCache& cache,
                 const std::vector<HeadPlace>& path, const PathLogitsOptions& options = {});

}  // namespace hooked
