#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooked/engine/prefix.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/hook.h"
#include "hooked/hooks/selection.h"

namespace hooked {

/// What a run returns besides its cache (DESIGN 9.2).
enum class Output : std::uint8_t {
  logits,    ///< [batch, pos, vocab] after any soft cap; not for models without unembedding
  loss,      ///< next-token cross entropy in nats, of causal models; logits are not kept
  residual,  ///< the stream where the run stopped, [batch, pos, d_model]: what the next block would read
  none,      ///< nothing: the run ends at the deepest watched layer
};

enum class LossReduction : std::uint8_t {
  mean,       ///< over all predictions whose two tokens are real
  per_token,  ///< [batch, pos - 1]; masked predictions are 0
};

/// A differentiable function of the logits [batch, positions, vocab] to one number.
using LogitMetric = std::function<at::Tensor(const at::Tensor& logits)>;

/// Gradients of `metric` with respect to activations (as downstream saw them).
struct GradientRequest {
  Selection of;
  LogitMetric metric;
};

/// Everything about one run but its input. For designated initialisers.
struct RunOptions {
  /// Activations to keep.
  Selection capture = {};
  std::vector<Hook> hooks = {};
  std::vector<Edit> edits = {};
  Output output = Output::logits;
  LossReduction loss_reduction = LossReduction::mean;

  /// [batch, pos], 1 or true for real tokens; padding on either side. Positions count real tokens.
  at::Tensor attention_mask = {};
  /// Types of the tokens, [batch, pos] int64, for models that have token types; undefined: all 0.
  at::Tensor token_types = {};
  /// Encoder-decoders: the input is what the encoder reads, and this is what the decoder does, [batch, pos]
  /// or [pos] int64, from its start token on; undefined: that token alone. Logits, loss and residual are the
  /// decoder's, and so are `logit_positions` and the layers to stop at.
  at::Tensor decoder_tokens = {};
  /// [batch, pos] of the decoder's tokens, 1 or true for real ones; padding on either side.
  at::Tensor decoder_attention_mask = {};
  /// Tokens that stand before the input and were run already. Positions in addresses, `positions` and
  /// `logit_positions` count them; the cache holds the input's columns only.
  std::optional<Prefix> prefix = std::nullopt;
  /// Positions whose logits are computed (negative count from the end); absent: all.
  std::optional<std::vector<std::int64_t>> logit_positions = std::nullopt;
  /// Keep captured activations at these positions only, along each point's pos or query axis.
  std::optional<AxisIndex> positions = std::nullopt;
  /// Where captured activations are kept (`"cpu"`, `"cuda:0"`); absent: where they are made.
  std::string cache_device = {};

  /// The input is the residual stream before this block, [batch, pos, d_model], instead of tokens.
  std::optional<std::int64_t> start_at_layer = std::nullopt;
  /// The run ends before this block and returns the residual stream there; n_layers means after the last
  /// block.
  std::optional<std::int64_t> stop_at_layer = std::nullopt;
  /// Token ids for the loss of a run that starts from a residual.
  at::Tensor target_tokens = {};

  std::optional<GradientRequest> gradients = std::nullopt;

  /// Give back what the layers remember of all columns, for later runs to go on from.
  bool keep_prefix = false;
};

/// What a run gives back. Undefined tensors where the output was not asked for.
struct RunResult {
  at::Tensor logits;    ///< [batch, pos or logit_positions, vocab]
  at::Tensor loss;      ///< scalar or [batch, pos - 1], nats
  at::Tensor residual;  ///< [batch, pos, d_model]
  ActivationCache cache;
  ActivationCache gradients;     ///< d metric / d activation, same names and shapes as the activations
  at::Tensor metric;             ///< the metric's value when gradients were asked for
  std::optional<Prefix> prefix;  ///< with `keep_prefix`: the run's prefix and its own columns
};

}  // namespace hooked
