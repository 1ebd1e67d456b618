#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "analysis/stream/stream_path.h"
#include "hooked/analysis/answers.h"

namespace hooked {

/// How a logit, or a difference of two, is read from the end of one run's stream with the final norm's scale
/// of that run: x . direction + biases.
struct LogitReading {
  at::Tensor directions;    ///< [row, pos, 1, d_model] float64
  at::Tensor norm_bias;     ///< [row, 1]: what the final norm's bias adds
  at::Tensor unembed_bias;  ///< [row, 1]: what b_U adds
  const char* unit;         ///< of the number: a difference is the same in a model whose logits are centred
};

/// The unit of single logits.
const char* unit_of_logits(const ModelConfig& config);

/// What is read. `where` names the analysis in errors.
struct ReadLogit {
  const char* where;
  const Answers& answer;
  const std::optional<Answers>& against;
};

/// Throws HookError for models whose logits, before a soft cap, are not a linear function of the normed
/// stream, ShapeError for answers that do not fit.
LogitReading logit_reading(const ReadLogit& logit, const RunReading& run);

/// The effect of hooks and edits on it after the stream, [row, pos]: the logit as the cache shows it nearest
/// to the end of the run (among the logits before any cap, in the input of the unembedding, or in the output
/// of the final norm) minus the stream's by `reading`. Zeros if the cache has none of these at the columns.
at::Tensor behind_stream(const ReadLogit& logit, const LogitReading& reading, const RunReading& run);

/// The end of a run before any soft cap, as the cache shows it nearest to the logits.
struct ShownEnd {
  at::Tensor logits;      ///< [row, pos, vocab], if it has those of all tokens
  at::Tensor unembedded;  ///< else [row, pos, d_model] float64 on the CPU: what the unembedding read
};

/// Both undefined if the cache has none of unembed_out, unembed_in and the final norm's `normalized` at the
/// columns.
ShownEnd shown_end(const RunReading& run);

}  // namespace hooked
