#pragma once

#include <cstdint>
#include <functional>

#include "hooked/analysis/factored_matrix.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/head_place.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// Which weights a circuit is made of. For designated initialisers.
struct CircuitOptions {
  /// Whether the weights of the norms that heads read and write through belong to the circuit, and centring
  /// where they centre: what is linear in the stream when scales are held. Raw and folded weights have the
  /// same QK circuits then. Without, circuits are the bare matrices, as TransformerLens has them.
  bool norms = true;
  Stack stack = Stack::none;  ///< on an encoder-decoder: the decoder's heads, or the encoder's
};

/// What each head writes of what it reads, W_V W_O: [layer, head, d_model, d_model], rows are what is read,
/// in the dtype of the weights. Heads that share values have those of their group. Biases belong to no
/// circuit. NaN in layers without attention; where layers have heads of several sizes, the factors of the
/// smaller ones have zeros behind their numbers, which leaves the products as they are. (Elhage et al. 2021.)
///
/// Throws ConfigError for latent attention, whose values come from behind a norm of their own, and HookError
/// where values are clipped or go through norms of their own, and where heads are gated, which only a run
/// says the size of.
FactoredMatrix ov_circuits(const HookedTransformer& model, const CircuitOptions& options = {});

/// How each head scores a token that looks (rows) by one that is looked at (columns), W_Q W_K^T: [layer,
/// head, d_model, d_model], without the scores' scale. Of rotary models it is that of a token that looks at
/// itself; elsewhere the distance turns it.
///
/// Throws as ov_circuits, and HookError where queries and keys of any layer go through norms of their own,
/// whose scales only a run has (score_attribution takes scores of a run apart).
FactoredMatrix qk_circuits(const HookedTransformer& model, const CircuitOptions& options = {});

/// How composition_scores compares. For designated initialisers.
struct CompositionOptions {
  CircuitOptions circuits = {};    ///< of which weights
  std::int64_t random_draws = 64;  ///< pairs of random heads for the baseline
  std::uint64_t seed = 0;          ///< of these
  /// Called after each pair of layers; false ends the work.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// How much of what each head writes the later ones read.
struct CompositionScores {
  /// |L R| / (|L| |R|) of the earlier head's OV circuit L and what the later head reads with, R: Frobenius
  /// norms, so 1 at most. Axes [layer, head, to_layer, to_head]; NaN unless the second layer is later.
  Grid scores;
  double random_mean;       ///< the same of heads with weights drawn from a normal distribution, in the mean
  double random_deviation;  ///< and how far single ones lie from it
  bool complete;            ///< not ended by `progress`; else NaN stands for what is missing
};

/// Composition between all heads by queries (R is the QK circuit), keys (its transpose) or values (the OV
/// circuit). NaN from and to layers without attention. Throws as ov_circuits and qk_circuits; HookError where
/// norms stand on the stream itself, between what is written and what is read (unless CircuitOptions::norms
/// is false); ShapeError for less than two draws.
CompositionScores composition_scores(const HookedTransformer& model, HeadInput input,
                                     const CompositionOptions& options = {});

/// Which tokens copying_scores looks at. For designated initialisers.
struct CopyingOptions {
  CircuitOptions circuits = {};  ///< of which weights
  std::int64_t top_k = 5;        ///< how far up a token must stand among those that its copy raises
  std::int64_t tokens = 500;  ///< tokens that are asked, drawn from the vocabulary; all where it has no more
  std::uint64_t seed = 0;     ///< of these
  /// Called after each head; false ends the work.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// Whether heads copy, from weights alone: of the full OV circuit W_E W_V W_O W_U, which says what seeing a
/// token does to the logits of all tokens.
struct CopyingScores {
  Grid eigenvalues;  ///< [layer, head]: the sum of its eigenvalues over the sum of their sizes; 1 copies, -1
                     ///< does the opposite
  Grid top_k;  ///< [layer, head]: share of tokens that are among the top_k which they raise most themselves
  bool complete;  ///< not ended by `progress`; else NaN stands for what is missing
};

/// Copying scores of all heads, by d_head x d_head matrices; NaN in layers without attention. With
/// CircuitOptions::norms the final norm's weight counts, too, and tokens are as a norm of the embedding
/// leaves them. Throws as ov_circuits, and HookError for models that have no unembedding, another vocabulary
/// behind it, or an encoder, and where norms stand on the stream itself.
CopyingScores copying_scores(const HookedTransformer& model, const CopyingOptions& options = {});

}  // namespace hooked
