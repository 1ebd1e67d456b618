#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/lens_maps.h"
#include "hooked/analysis/position.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// What is read, where, and what is reported. For designated initialisers.
struct LogitLensOptions {
  std::vector<Position> positions = {Position::last()};  ///< empty: all
  std::vector<std::int64_t> tokens = {};                 ///< whose numbers the grids have; may be empty
  std::int64_t top_k = 3;                                ///< predictions per point
  bool mid = false;                                      ///< also the points between a block's sublayers
  /// Instead of the stream, reads what each part wrote to it, each alone, as residual_parts has it (without
  /// the remainder).
  std::optional<Grain> parts = std::nullopt;
  /// For the stream: the maps that its points are read through, a tuned or a Jacobian lens. Points without a
  /// map, and those between sublayers, are left out; the end is read as it is.
  std::optional<LensMaps> maps = std::nullopt;
  /// Called after some readings (one per point, position and row); false ends the work.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// What the model would predict if it stopped at one point of the residual stream.
struct LogitLensRow {
  /// A token that would come next.
  struct Prediction {
    std::int64_t token;  ///< its id
    std::string piece;   ///< the token's text, or its id if the model has no tokenizer
    double logit;        ///< after any soft cap of the model
    double probability;  ///< of the softmax over the whole vocabulary
  };
  /// The activation that was read; for parts that are not activations (biases), the default.
  ActivationName name;
  std::int64_t row;                     ///< batch row
  std::int64_t column;                  ///< the token's absolute column
  std::vector<Prediction> predictions;  ///< likeliest first
  std::string part = {};                ///< the part that was read; empty: a point of the stream
  std::string token = {};               ///< the text of the token at the column; empty if it is not known
};

/// What the logit lens reads at some points, rows and positions of the stream. Prints its likeliest tokens.
struct LogitLens {
  /// The requested tokens' logits: [row, token, point, pos]. A place of `point` has the address of the
  /// activation that was read. NaN if the position is padding.
  Grid logits;
  Grid probabilities;  ///< the same as probabilities
  /// The same as ranks: the number of tokens with a larger logit; 0 is the likeliest.
  Grid ranks;
  /// The likeliest tokens: by row, then position, then point; no padding, and no parts that wrote zeros.
  std::vector<LogitLensRow> top;
  bool complete;  ///< not ended by `progress`; else missing numbers are NaN, and `top` lacks them
};

/// Reads each point of the residual stream as if it were the last: final norm (with that point's own scale)
/// and unembedding. One point is the first block's input, the others follow each block, so the last is what
/// the run predicted. On an encoder-decoder the stream is the decoder's. Needs resid_pre(0) and every
/// resid_post in the cache, with `mid` every point between (resid_mid, resid_mid_cross, resid_mid_mlp), for
/// parts what residual_parts needs.
///
/// A part is read as if it were all of the stream, with its own scale: this shows what it says alone. For
/// what it adds to the logits see direct_logit_attribution.
///
/// Throws HookError if one is missing, if a position was not kept, and for blocks that normalise the stream
/// itself (post-norm); ShapeError for a position that is padding or outside, and for a token outside the
/// vocabulary. (nostalgebraist 2020.)
LogitLens logit_lens(const HookedTransformer& model, const ActivationCache& cache,
                     const LogitLensOptions& options = {});

/// `blocks.1.hook_resid_post   Mary 97.1 %   John 1.2 %`
std::ostream& operator<<(std::ostream& out, const LogitLensRow& row);
/// The rows of `top`, under a heading for each row and position if there are several.
std::ostream& operator<<(std::ostream& out, const LogitLens& lens);

}  // namespace hooked
