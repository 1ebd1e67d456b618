#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// What becomes of the scores of a batch's rows.
enum class HeadRows : std::uint8_t {
  mean,  ///< one score over the positions of all rows: a Grid [layer, head]
  each,  ///< each row's own: a Grid [row, layer, head], NaN where a row has no position to look from
};

/// Which heads are scored, and how. For designated initialisers.
struct HeadScoreOptions {
  Stack stack = Stack::none;       ///< on an encoder-decoder: the decoder's heads, or the encoder's
  HeadRows rows = HeadRows::mean;  ///< over a batch
};

// Detectors of attention heads by their patterns. Each returns a Grid of probabilities between 0 and 1 and
// needs every layer's pattern, of all positions. Padding is neither looked from nor at, and counts in no
// mean. `tokens` are what the stack read.

/// How much of its attention a head gives to the token just before, averaged over the positions that have
/// one. Throws ShapeError when no position has one.
Grid previous_token_scores(const ActivationCache& cache, const HeadScoreOptions& options = {});

/// How much of its attention a head gives to earlier occurrences of the very token it stands on, averaged
/// over the positions that have one. `tokens` int64 [batch, pos] is what the cached run read. Throws
/// ShapeError when it does not fit the patterns or no token occurs twice.
Grid duplicate_token_scores(const ActivationCache& cache, const at::Tensor& tokens,
                            const HeadScoreOptions& options = {});

/// How much of its attention a head gives to the tokens that *followed* earlier occurrences of the token it
/// stands on: where an induction head looks to say what comes next (Olsson et al. 2022). Averaged and
/// throwing as above.
Grid induction_scores(const ActivationCache& cache, const at::Tensor& tokens,
                      const HeadScoreOptions& options = {});

/// Random tokens said twice: what makes those heads show themselves.
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

}  // namespace hooked
