#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

// Detectors of attention heads by their patterns. Each returns a Grid [layer, head] of probabilities between
// 0 and 1 and needs every layer's pattern, of all positions. Rows of a batch are averaged. On an
// encoder-decoder the heads are the decoder's, or with Stack::encoder the encoder's; `tokens` are what that
// stack read.

/// How much of its attention a head gives to the token just before, averaged over the positions that have
/// one.
Grid previous_token_scores(const ActivationCache& cache, Stack of = Stack::none);

/// How much of its attention a head gives to earlier occurrences of the very token it stands on, averaged
/// over the positions that have one. `tokens` int64 [batch, pos] is what the cached run read. Throws
/// ShapeError when it does not fit the patterns or no token occurs twice.
Grid duplicate_token_scores(const ActivationCache& cache, const at::Tensor& tokens, Stack of = Stack::none);

/// How much of its attention a head gives to the tokens that *followed* earlier occurrences of the token it
/// stands on: where an induction head looks to say what comes next (Olsson et al. 2022). Averaged and
/// throwing as above.
Grid induction_scores(const ActivationCache& cache, const at::Tensor& tokens, Stack of = Stack::none);

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
