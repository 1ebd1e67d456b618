#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// How finely the writers of the stream are told apart.
enum class Grain : std::uint8_t {
  layer,  ///< attention and MLP of each layer
  head,   ///< each attention head by itself
};

/// Which logit is taken apart, and how finely. For designated initialisers.
struct AttributionOptions {
  std::int64_t answer = 0;                             ///< the token whose logit is taken apart
  std::optional<std::int64_t> against = std::nullopt;  ///< subtracted from it, if given
  Grain grain = Grain::layer;                          ///< the parts that get a row each
  std::int64_t position = -1;                          ///< absolute, negative from the end
  std::int64_t row = 0;                                ///< batch row of the cache
};

/// What one part of the model added to the logit (difference).
struct Attribution {
  std::string part;  ///< `embed`, `head 1.3`, `attn bias 1`, `cross attn 1`, `mlp 0`, `final norm bias`,
                     ///< `unembed bias`
  double logits;     ///< what the part added to the logit (difference)
};

/// Direct logit attribution: splits a logit, or a difference of two, into what each part wrote to the stream.
///
/// With the final norm's scale s taken from the cache the logits are linear in the stream, so the rows add up
/// to the run's logit (difference), bias rows included, to float precision: part x gives (w * centred(x) / s)
/// . d, where d is the answer's column of W_U minus the other's (Elhage et al. 2021, "logit attribution").
/// Holds for runs whose stream no hook or edit changed. On an encoder-decoder the stream is the decoder's,
/// and cross-attention has rows of its own.
///
/// Needs embed and pos_embed (learned positions), or full_embed where the sum of embeddings is normed,
/// attn_out or (by head) z, mlp_out and ln_final_scale in the cache; on an encoder-decoder
/// resid_pre(0) as the embedding, cross_attn_out, decoder_final_ln_scale, and by head result and cross_result
/// (wide points: capture them). Throws HookError where one is missing, and where no exact split exists: a
/// soft cap on the logits, a masked-LM head, norms that stand after the additions, and by head when the
/// attention's output is normed before it is added.
std::vector<Attribution> direct_logit_attribution(const HookedTransformer& model,
                                                  const ActivationCache& cache,
                                                  const AttributionOptions& options);

}  // namespace hooked
