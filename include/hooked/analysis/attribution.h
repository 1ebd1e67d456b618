#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "hooked/analysis/answers.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// Which logit is taken apart, where, and how finely. For designated initialisers.
struct AttributionOptions {
  Answers answer =
      {};  ///< the token whose logit is taken apart, or its text; for a set the mean of its logits
  std::optional<Answers> against = std::nullopt;         ///< subtracted from it, if given
  Grain grain = Grain::layer;                            ///< the parts that get a place each
  ValueBiases value_biases = ValueBiases::in_heads;      ///< where a head's value bias counts
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
  /// Called after each module that writes to the stream, the last one first; false ends the work. The parts
  /// that are missing then, and the remainder, are NaN.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// Direct logit attribution: splits a logit, or a difference of two, into what each part wrote to the
/// residual stream. Returns a Grid [row, part, pos] in logits, NaN where the position is padding. Parts,
/// their names and places are those of residual_parts, followed by `final norm bias` and `unembed bias`.
///
/// If the scales of the norms on the way are taken from the cache, the logits are linear in the residual
/// stream. So the parts add up to the run's logit (difference), to float precision. Part x gives (w *
/// centred(x) / s) . d, where s is the final norm's scale and d the answer's column of W_U minus the other's
/// (Elhage et al. 2021, "logit attribution"). Biases are parts, too. `remainder` is what the logit has in
/// addition to all parts: rounding, or a change that a hook or an edit made to the stream or to what follows
/// it (the final norm, the unembedding), as far as the cache shows it: by unembed_out, unembed_in or the
/// final norm's `normalized`. The default capture has all three. If the model caps its logits, the sum is the
/// logit before the cap, `unembed.hook_out`. On an encoder-decoder the stream is the decoder's, and
/// cross-attention has parts of its own. No part is built as a vector: heads are read from z through W_O,
/// neurons from `post` through W_out.
///
/// Needs what residual_parts needs and the final norm's scale. Throws HookError if one is missing or a
/// position was not kept, and for models without an unembedding or with a masked-LM head, whose activation
/// function does not act on parts separately; ShapeError for answers and positions that do not fit the run.
Grid direct_logit_attribution(const HookedTransformer& model, const ActivationCache& cache,
                              const AttributionOptions& options);

/// The same for your own vectors: what each would add to the logit (difference) as a part of the end of the
/// residual stream. `stack` has the axes `row`, `pos` and, last, `d_model` and any others, as for
/// normed_stack; the result has all but d_model. The options' grain, value_biases and progress are ignored.
/// Throws as above.
Grid direct_logit_attribution(const HookedTransformer& model, const ActivationCache& cache, const Grid& stack,
                              const AttributionOptions& options);

/// Which logit is split by the tokens that heads read, and where. For designated initialisers.
struct SourceAttributionOptions {
  Answers answer = {};                                   ///< as AttributionOptions has it
  std::optional<Answers> against = std::nullopt;         ///< subtracted from it, if given
  act::BlockSite pattern = act::pattern;                 ///< whose heads: pattern or cross_pattern
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
  /// Called after each module that writes to the stream, the last one first; false ends the work. The parts
  /// that are missing then, and the remainder, are NaN.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// Direct logit attribution of heads by the token that was read: a Grid [row, part, pos, key] in logits,
/// where a part is a head and `key` is the column that it attended to. What a head moved from a token is the
/// attention times that token's value through W_O (and, in gated heads, through the query token's gate).
/// Summed over keys this is the head's part in direct_logit_attribution, unless something changed z. Keys
/// that are not attended to have 0.
///
/// Needs pattern and v of every layer at all positions (and the gates, if heads are gated) in addition to
/// what direct_logit_attribution needs. Throws as it does, and HookError after a prefix, whose values are not
/// in the cache.
Grid source_attribution(const HookedTransformer& model, const ActivationCache& cache,
                        const SourceAttributionOptions& options);

}  // namespace hooked
