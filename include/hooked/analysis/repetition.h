#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// Random tokens said twice: what makes induction heads show themselves. For designated initialisers.
struct RepeatedTokensOptions {
  std::int64_t rows = 8;         ///< sequences
  std::int64_t half = 20;        ///< tokens of the part that is repeated; none occurs twice within it
  std::int64_t vocab_begin = 0;  ///< ids are drawn from [vocab_begin, vocab_end)
  std::int64_t vocab_end = 0;    ///< one past the last id
  std::int64_t bos = -1;         ///< put before each row; none when negative
  std::uint64_t seed = 0;        ///< the same seed draws the same tokens
};

/// int64 [rows, (1 +) 2 * half]. Throws ShapeError when the range holds fewer than `half` ids.
at::Tensor repeated_random_tokens(const RepeatedTokensOptions& options);

/// Options for a model: ids of its whole vocabulary, behind the BOS token with which its family was trained,
/// where its tokenizer names one. Throws HookError for a model without unembedding.
RepeatedTokensOptions repeated_tokens_of(const HookedTransformer& model);

/// What a model makes of random tokens that are said twice. In each half the tokens behind its first one are
/// predicted: the same tokens, once when nothing could be known of them and once when all could. Axes [row,
/// half], halves `first` and `second`.
struct RepetitionScores {
  Grid loss;      ///< mean loss in nats: of the second half TransformerLens's induction loss
  Grid accuracy;  ///< share of the tokens that were the likeliest
  bool complete;  ///< not ended by `progress`; else NaN stands for the rows that are missing
};

/// Runs repeated_random_tokens(options) and scores its halves; hooks and edits of `run` hold. A few rows are
/// run together, up to 1024 tokens and fewer where memory runs out, with edits one; hooks see that many.
/// `progress` is called after them, and false ends the work.
///
/// Throws HookError for models that do not predict the next token of the text that they read (two stacks,
/// bidirectional ones, no unembedding), ShapeError for `half` below 2 and what running throws.
RepetitionScores repetition_scores(const HookedTransformer& model, const RepeatedTokensOptions& options,
                                   const RunOptions& run = {},
                                   const std::function<bool(const SweepProgress&)>& progress = nullptr);

/// The same with repeated_tokens_of(model).
RepetitionScores repetition_scores(const HookedTransformer& model);

}  // namespace hooked
