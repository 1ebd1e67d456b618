#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// Where the stream is read, and how much is reported. For designated initialisers.
struct LogitLensOptions {
  std::int64_t position = -1;  ///< absolute, negative from the end
  std::int64_t top_k = 3;      ///< predictions per row
  std::int64_t row = 0;        ///< batch row of the cache
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
  std::vector<Prediction> predictions;  ///< likeliest first
};

/// Reads each point of the residual stream as if it were the last: final norm (of that point's own size) and
/// unembedding. One row for the first block's input and one after each block, so the last row is what the run
/// predicted. On an encoder-decoder the stream is the decoder's. Needs resid_pre(0) and every resid_post in
/// the cache.
/// Throws HookError when one is missing, when the position was not kept, and for blocks that normalise the
/// stream itself (post-norm). (nostalgebraist 2020.)
std::vector<LogitLensRow> logit_lens(const HookedTransformer& model, const ActivationCache& cache,
                                     const LogitLensOptions& options = {});

/// `blocks.1.hook_resid_post   Mary 97.1 %   John 1.2 %`
std::ostream& operator<<(std::ostream& out, const LogitLensRow& row);

}  // namespace hooked
