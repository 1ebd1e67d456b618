#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "hooked/analysis/position.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// A feature of a dictionary on some tokens.
struct FiringFeature {
  std::int64_t feature;  ///< its number in the dictionary
  double largest;        ///< its largest activation
  std::int64_t row;      ///< where that is
  std::int64_t column;   ///< the token's absolute column there
  double mean;           ///< over the tokens at which it fires
  std::int64_t tokens;   ///< at how many tokens it fires
};

/// What is listed of features. For designated initialisers.
struct FiringOptions {
  std::vector<Position> positions = {};  ///< the tokens that are looked at; empty: all
  std::int64_t count = 20;               ///< features at most, the largest activations first; 0: all
};

/// The features that fire (are not 0) at tokens of a run, the largest activations first. Padding does not
/// count.
///
///     const auto spliced = model.with_dictionary(sae, {.with_error = true});
///     const auto run = spliced.run_with_cache(tokens, act::sae_acts_post);
///     firing_features(run.cache, act::sae_acts_post(act::resid_post(1)));
///
/// `features` is the point act::sae_acts_post of one dictionary. Throws HookError for another point or if the
/// cache lacks it.
std::vector<FiringFeature> firing_features(const ActivationCache& cache, const Address& features,
                                           const FiringOptions& options = {});

/// What each feature does to the logits directly, [feature, vocab] in float64: the direction that the decoder
/// writes, through the final norm without its scale, times W_U (with heads, through W_O). The unit is a logit
/// for each unit of the feature and of 1 / scale.
///
/// `features` is the point act::sae_acts_post of one of the model's dictionaries. Throws HookError for
/// another point, for a dictionary that writes neither to the stream nor to heads, and for models without an
/// unembedding or with a masked-LM head.
at::Tensor feature_logits(const HookedTransformer& model, const Address& features,
                          const std::vector<std::int64_t>& which);

/// How well a dictionary does on some text.
struct DictionaryQuality {
  std::int64_t tokens = 0;  ///< that were read; padding and excluded tokens do not count
  double l0 = 0;            ///< features that fire at a token, on average
  /// 1 - sum of squared errors / sum of squared distances of the activations from their mean.
  double explained_variance = 0;
  double loss = 0;          ///< of the next token in nats: of the model alone
  double spliced_loss = 0;  ///< with the reconstruction in the activation's place
  double zero_loss = 0;     ///< with zeros there
  /// (zero_loss - spliced_loss) / (zero_loss - loss): 1 if nothing is lost. Called the loss or cross-entropy
  /// recovered.
  double recovered = 0;
  at::Tensor fired;       ///< [feature] int64: at how many tokens each fires
  std::int64_t dead = 0;  ///< features that fire at none of them
  bool complete = true;   ///< not ended by `progress`: else all numbers are of the rows that were run
};

/// Measures a dictionary on the rows of an input, at the place where it stands in `model` (any other
/// dictionaries stay as they are). Losses are means over the tokens that follow another real token. Codes are
/// never kept for more than a few rows.
///
/// `features` is the point act::sae_acts_post of that dictionary. `progress` is called after some rows; false
/// ends the work. Throws HookError for another point, and for models that do not predict the next token.
DictionaryQuality dictionary_quality(const HookedTransformer& model, const Address& features,
                                     const Input& input,
                                     const std::function<bool(const SweepProgress&)>& progress = nullptr);

}  // namespace hooked
