#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// Where the stream is read, and what is reported. For designated initialisers.
struct LogitLensOptions {
  std::vector<Position> positions = {Position::last()};  ///< empty: all
  std::vector<std::int64_t> tokens = {};  ///< whose logits and probabilities the grids have; may be none
  std::int64_t top_k = 3;                 ///< predictions per point
};

/// What the model would predict if it stopped at one point of the residual stream.
struct LogitLensRow {
  /// A token that would come next.
  struct Prediction {
    std::int64_t token;  ///< its id
    std::string piece;   ///< the token's text, or its id where the model has no tokenizer
    double logit;        ///< after any soft cap of the model
    double probability;  ///< of the softmax over the whole vocabulary
  };
  ActivationName name;                  ///< the point that was read
  std::int64_t row;                     ///< batch row
  std::int64_t column;                  ///< the token's absolute column
  std::vector<Prediction> predictions;  ///< likeliest first
};

/// What the logit lens reads at some points, rows and positions of the stream. Prints its likeliest tokens.
struct LogitLens {
  /// Of the tokens that were asked for: [row, token, point, pos]. A place of `point` has the address of the
  /// activation that was read. NaN where the position is padding.
  Grid logits;
  Grid probabilities;             ///< the same as probabilities
  std::vector<LogitLensRow> top;  ///< the likeliest tokens: by row, then position, then point; no padding
};

/// Reads each point of the residual stream as if it were the last: final norm (of that point's own size) and
/// unembedding. One point for the first block's input and one after each block, so the last is what the run
/// predicted. On an encoder-decoder the stream is the decoder's. Needs resid_pre(0) and every resid_post in
/// the cache.
/// Throws HookError when one is missing, when a position was not kept, and for blocks that normalise the
/// stream itself (post-norm); ShapeError for a position that is padding or outside, and for a token outside
/// the vocabulary. (nostalgebraist 2020.)
LogitLens logit_lens(const HookedTransformer& model, const ActivationCache& cache,
                     const LogitLensOptions& options = {});

/// `blocks.1.hook_resid_post   Mary 97.1 %   John 1.2 %`
std::ostream& operator<<(std::ostream& out, const LogitLensRow& row);
/// The rows of `top`, under a heading for each row and position where there are several.
std::ostream& operator<<(std::ostream& out, const LogitLens& lens);

}  // namespace hooked
