#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// Random tokens repeated once: these reveal induction heads. For designated initialisers.
struct RepeatedTokensOptions {
  std::int64_t rows = 8;         ///< sequences
  std::int64_t half = 20;        ///< tokens of the part that is repeated; no token occurs twice within it
  std::int64_t vocab_begin = 0;  ///< ids are drawn from [vocab_begin, vocab_end)
  std::int64_t vocab_end = 0;    ///< one past the last id
  std::int64_t bos = -1;         ///< put before each row; none if negative
  std::uint64_t seed = 0;        ///< the same seed draws the same tokens
};

/// int64 [rows, (1 +) 2 * half]. Throws ShapeError when the range holds fewer than `half` ids.
at::Tensor repeated_random_tokens(const RepeatedTokensOptions& options);

/// Options for a model: ids of its whole vocabulary, after the BOS token with which its family was trained,
/// if its tokenizer has one. Throws HookError for a model without unembedding.
RepeatedTokensOptions repeated_tokens_of(const HookedTransformer& model);

/// How well a model predicts repeated random tokens. In each half all tokens after the first are predicted:
/// they are the same tokens, once when nothing can be known about them and once when all can. Axes [row,
/// half], halves `first` and `second`.
struct RepetitionScores {
  Grid loss;      ///< mean loss in nats: for the second half, TransformerLens's induction loss
  Grid accuracy;  ///< share of the tokens that were the likeliest
  bool complete;  ///< not ended by `progress`; else missing rows are NaN
};

/// Runs repeated_random_tokens(options) and scores its halves; hooks and edits of `run` apply. A few rows are
/// run together, up to 1024 tokens and fewer if memory runs out, or one row if there are edits; hooks see
/// these. `progress` is called between layers and after each such group; false ends the work, and
/// groups that are whole are kept.
///
/// Throws HookError for models that do not predict the next token of the text that they read (two stacks,
/// bidirectional ones, no unembedding), ShapeError for `half` below 2 and what running throws.
RepetitionScores repetition_scores(const HookedTransformer& model, const RepeatedTokensOptions& options,
                                   const RunOptions& run = {},
                                   const std::function<bool(const SweepProgress&)>& progress = nullptr);

/// The same with repeated_tokens_of(model).
RepetitionScores repetition_scores(const HookedTransformer& model);

}  // namespace hooked
