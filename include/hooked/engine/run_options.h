#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/keep_options.h"
#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/hook.h"
#include "hooked/hooks/selection.h"

namespace HOOKED_EXPORT hooked {

/// What a run returns besides its cache.
enum class Output : std::uint8_t {
  logits,  ///< [batch, pos, vocab] after any soft cap; not for models without an unembedding
  loss,    ///< next-token cross entropy in nats, of causal models; logits are not kept
  /// The stream where the run stopped, [batch, pos, d_model]: what the next block would read. If a model ends
  /// with a final norm and has no unembedding (a T5 encoder alone): that norm's output.
  residual,
  none,  ///< nothing: the run ends at the last watched activation
};

/// How the losses of single predictions are combined.
enum class LossReduction : std::uint8_t {
  mean,       ///< over all predictions whose two tokens are both real
  per_token,  ///< [batch, pos - 1]; masked predictions are 0
};

/// How the loss of a run is computed, for Output::loss.
struct LossOptions {
  LossReduction reduction = LossReduction::mean;  ///< one number, or one for each prediction
  /// The ids to predict, [batch, pos]; undefined: those of the input, which an input that starts from a
  /// residual does not have.
  at::Tensor targets = {};
};

/// A differentiable function from the logits [batch, positions, vocab] to one number. For a function that
/// needs only some tokens' logits, use a RunMetric.
class LogitMetric {
 public:
  /// Maps logits [batch, positions, vocab] to a scalar. The second axis is the declared positions, in their
  /// order, or all that the run computes if none are declared.
  using Function = std::function<at::Tensor(const at::Tensor& logits)>;

  LogitMetric() = default;
  /// Any callable. `positions` are those whose logits it reads, negative ones from the end, so that a run
  /// need not compute the others. A run refuses one that counts from the end and is padding in some row.
  /// None: the function gets all that the run computes.
  /// (A type that converts itself to a LogitMetric, as a Metric does, is not taken as a callable.)
  template <std::invocable<const at::Tensor&> F>
  requires(!std::same_as<std::remove_cvref_t<F>, LogitMetric> &&
           !requires(const F& f) { f.operator LogitMetric(); })
      LogitMetric(F function, std::vector<std::int64_t> positions = {})  // NOLINT: a callable is a metric
      : function_(std::move(function)), positions_(std::move(positions)) {}

  /// Whether it has a function.
  explicit operator bool() const noexcept { return static_cast<bool>(function_); }
  /// The metric of these logits [batch, positions, vocab].
  at::Tensor operator()(const at::Tensor& logits) const { return function_(logits); }
  /// The positions whose logits it reads; negative ones count from the end. Empty: all that are computed.
  const std::vector<std::int64_t>& positions() const& noexcept { return positions_; }
  /// The same for a temporary, as a copy.
  std::vector<std::int64_t> positions() const&& { return positions_; }

 private:
  Function function_;
  std::vector<std::int64_t> positions_;
};

/// A differentiable function from activations, and from the run's output, to one number.
struct RunMetric {
  /// Maps to a scalar. `output`: the logits at the computed positions, or the stream [batch, pos, d_model] if
  /// the run stops at a layer or the model has no logits. `read`: the activations asked for, as downstream
  /// sees them.
  using Function = std::function<at::Tensor(const at::Tensor& output, const ActivationCache& read)>;

  Selection reads = {};         ///< the activations that it reads
  Function function = nullptr;  ///< computes the number
  /// The absolute columns whose logits `function` takes, in this order; a run that computes others is
  /// refused. Absent: it takes whatever the run computes.
  std::optional<std::vector<std::int64_t>> logit_positions = std::nullopt;
  /// The same for the tokens whose logits it takes.
  std::optional<std::vector<std::int64_t>> logit_tokens = std::nullopt;

  /// Whether it has a function.
  explicit operator bool() const noexcept { return static_cast<bool>(function); }
};

/// Gradients of a metric with respect to activations (as downstream saw them). First derivatives only: a
/// gradient of a gradient, inside the metric, throws HookError.
struct GradientRequest {
  Selection of;             ///< the activations
  LogitMetric metric = {};  ///< what is differentiated
  RunMetric of_run = {};    ///< or a function of more than logits; only one of the two
  /// Skip what the requested logits do not depend on: in the last block, after its attention, all other
  /// positions. There, gradients are zeros, and so are captured activations that nobody computed. Everything
  /// is computed if scores, points of single experts, hooks, edits or what the metric reads are among the
  /// skipped points.
  bool skip_unread = false;
};

/// Everything about one run except its input: what is done at the points, in that order, then what is
/// returned. Layers and positions without a stack are those of the stack that predicts. For designated
/// initialisers, which C++ takes in the order of these declarations.
struct RunOptions {
  Hooks hooks = {};  ///< functions of activations, called in this order
  Edits edits = {};  ///< changes given as data, made in this order after the hooks
  /// Activations to keep.
  Selection capture = {};
  KeepOptions keep = {};  ///< how much of each captured activation, and where

  Output output = Output::logits;  ///< what is computed in addition to activations
  /// Positions whose logits are computed (negative ones count from the end); absent: those that the metric of
  /// the gradients declares, else all. One that counts from the end and is padding in some row is refused.
  std::optional<std::vector<std::int64_t>> logit_positions = std::nullopt;
  /// Tokens whose logits are computed, in this order: the last axis of the logits, also of those that
  /// GradientRequest::of_run gets. Absent: the vocabulary. `unembed.hook_out` stays whole if it is watched.
  /// Not with a loss or a LogitMetric, which are about all tokens, nor if no logits are computed.
  std::optional<std::vector<std::int64_t>> logit_tokens = std::nullopt;
  /// The run ends before this block and returns the residual stream there; n_layers means after the last
  /// block.
  std::optional<std::int64_t> stop_at_layer = std::nullopt;
  std::optional<GradientRequest> gradients = std::nullopt;  ///< of what, with respect to what
  /// The output and the captured activations stay in autograd's graph of what the caller put in (by hooks,
  /// values of edits, a start residual), so that `backward()` of a function of them reaches it. Weights get
  /// no gradients. First derivatives only. Not with gradients or a prefix to keep.
  bool differentiable = false;
  /// Return the keys and values of all columns, for later runs to continue from.
  bool keep_prefix = false;
  LossOptions loss = {};  ///< for Output::loss
  /// Launch each kernel separately, even if the device could replay the recording of an equal run
  /// (docs/gpu.md).
  bool eager = false;
  /// Threads that LibTorch uses for this run, and for this run only; absent: its current number
  /// (`at::get_num_threads()`). See docs/threads.md.
  std::optional<int> threads = std::nullopt;
};

}  // namespace hooked
