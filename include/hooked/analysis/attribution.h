#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooked/analysis/answers.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// How finely the writers of the stream are told apart.
enum class Grain : std::uint8_t {
  layer,  ///< attention and MLP of each layer
  head,   ///< each attention head by itself
};

/// Which logit is taken apart, where, and how finely. For designated initialisers.
struct AttributionOptions {
  Answers answer = 0;  ///< the token whose logit is taken apart; of a set the mean of the logits
  std::optional<Answers> against = std::nullopt;         ///< subtracted from it, if given
  Grain grain = Grain::layer;                            ///< the parts that get a place each
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
};

/// Direct logit attribution: splits a logit, or a difference of two, into what each part wrote to the stream.
/// A Grid [row, part, pos] in logits, NaN where the position is padding; where a part is an activation that
/// was added to the stream, its place has the address (of a head: its `result`).
///
/// With the final norm's scale s taken from the cache the logits are linear in the stream, so the parts add
/// up to the run's logit (difference), to float precision: part x gives (w * centred(x) / s) . d, where d is
/// the answer's column of W_U minus the other's (Elhage et al. 2021, "logit attribution"). Biases are parts,
/// too, and `remainder` is what the last resid_post holds besides all parts: rounding, or, in runs whose
/// stream a hook or an edit changed, that change. (A change behind the last block is in no part.) On an
/// encoder-decoder the stream is the decoder's, and cross-attention has parts of its own.
///
/// The parts are `embed`, `pos_embed`, `attn 0`, `cross attn 0`, `mlp 0`, ..., by head `head 1.3`,
/// `attn bias 1`, `cross head 1.3`, `cross attn bias 1`, and last `remainder`, `final norm bias` and
/// `unembed bias`.
///
/// Needs embed and pos_embed (learned positions), or full_embed where the sum of embeddings is normed,
/// attn_out or (by head) z, mlp_out, the last resid_post and ln_final_scale in the cache; on an
/// encoder-decoder resid_pre(0) as the embedding, cross_attn_out, decoder_final_ln_scale, and by head result
/// and cross_result (wide points: capture them). Throws HookError where one is missing or a position was not
/// kept, and where no exact split exists: a soft cap on the logits, a masked-LM head, norms that stand after
/// the additions, and by head when the attention's output is normed before it is added. Throws ShapeError for
/// answers and positions that do not fit the run.
Grid direct_logit_attribution(const HookedTransformer& model, const ActivationCache& cache,
                              const AttributionOptions& options);

}  // namespace hooked
