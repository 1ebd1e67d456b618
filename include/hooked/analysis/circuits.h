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
  /// Whether to include the weights of the norms that heads read and write through, and their centring if
  /// they centre: what is linear in the stream when scales are held. Raw and folded weights then have the
  /// same QK circuits. If false, circuits are the bare matrices, as in TransformerLens.
  bool norms = true;
  Stack stack = Stack::none;  ///< on an encoder-decoder: the decoder's heads, or the encoder's
};

/// What each head writes for what it reads, W_V W_O: [layer, head, d_model, d_model], rows are what is read,
/// in the dtype of the weights. Heads that share values have those of their group. Biases belong to no
/// circuit. NaN in layers without attention. If layers have different head sizes, the factors of the smaller
/// ones are padded with zeros at the end, which does not change the products. (Elhage et al. 2021.)
///
/// Throws ConfigError for latent attention, whose values come after their own norm. Throws HookError if
/// values are clipped or pass through their own norms, and if heads are gated, because the size of a gate is
/// known only in a run.
FactoredMatrix ov_circuits(const HookedTransformer& model, const CircuitOptions& options = {});

/// How each head scores a query token (rows) against a key token (columns), W_Q W_K^T: [layer, head, d_model,
/// d_model], without the scores' scale. For rotary models this is the score of a token that attends to
/// itself; at other distances it is rotated.
///
/// Throws as ov_circuits, and HookError if queries and keys of any layer pass through their own norms, whose
/// scales exist only in a run (score_attribution splits the scores of a run).
FactoredMatrix qk_circuits(const HookedTransformer& model, const CircuitOptions& options = {});

/// How composition_scores compares. For designated initialisers.
struct CompositionOptions {
  CircuitOptions circuits = {};    ///< which weights
  std::int64_t random_draws = 64;  ///< pairs of random heads for the baseline
  std::uint64_t seed = 0;          ///< of that draw
  /// Called after each pair of layers and, when all of these are done, each draw; false ends the work.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// How much of what each head writes is read by later heads.
struct CompositionScores {
  /// |L R| / (|L| |R|) for the earlier head's OV circuit L and the matrix R that the later head reads with:
  /// Frobenius norms, so at most 1. Axes [layer, head, to_layer, to_head]; NaN unless to_layer is later.
  Grid scores;
  double random_mean;       ///< the mean for heads with weights drawn from a normal distribution
  double random_deviation;  ///< and the standard deviation of those; both NaN for fewer than two draws
  std::int64_t draws;       ///< that these are of: all unless the work was ended
  bool complete;            ///< not ended by `progress`; else missing numbers are NaN
};

/// Composition between all heads by queries (R is the QK circuit), keys (its transpose) or values (the OV
/// circuit). NaN from and to layers without attention. Throws as ov_circuits and qk_circuits; HookError if
/// there are norms on the stream itself, between what is written and what is read (unless
/// CircuitOptions::norms is false); ShapeError for fewer than two draws.
CompositionScores composition_scores(const HookedTransformer& model, HeadInput input,
                                     const CompositionOptions& options = {});

/// Which tokens copying_scores looks at. For designated initialisers.
struct CopyingOptions {
  CircuitOptions circuits = {};  ///< which weights
  std::int64_t top_k = 5;        ///< a token counts if it is among this many that its copy raises most
  std::int64_t tokens = 500;     ///< number of tokens asked, drawn from the vocabulary; at most all of it
  std::uint64_t seed = 0;        ///< of that draw
  /// Called after each head; false ends the work.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// Whether heads copy, from weights alone: based on the full OV circuit W_E W_V W_O W_U, which says how
/// seeing a token changes the logits of all tokens.
struct CopyingScores {
  Grid eigenvalues;  ///< [layer, head]: the sum of its eigenvalues over the sum of their sizes; 1 copies, -1
                     ///< does the opposite
  Grid top_k;        ///< [layer, head]: share of tokens that are among the top_k tokens they raise most
  bool complete;     ///< not ended by `progress`; else missing numbers are NaN
};

/// Copying scores of all heads, from d_head x d_head matrices; NaN in layers without attention. With
/// CircuitOptions::norms the final norm's weight is included, and tokens have passed a norm of the embedding.
/// Throws as ov_circuits, and HookError for models without an unembedding, with another vocabulary at the
/// output, or with an encoder, and if norms are on the stream itself.
CopyingScores copying_scores(const HookedTransformer& model, const CopyingOptions& options = {});

}  // namespace hooked
