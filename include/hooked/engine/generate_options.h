#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

/// Why a row ended.
enum class StopReason : std::uint8_t {
  length,       ///< the row has max_new_tokens new tokens
  stop_token,   ///< the last token is one of the stop tokens
  stop_string,  ///< the text came to a stop string
  callback,     ///< on_text or on_tokens returned false
};

/// How the next token is picked. The logits are changed in this order, skipping steps that are at their
/// default: repetition penalty, frequency penalty, temperature, top-k, top-p, min-p. `greedy` takes the
/// likeliest token after the penalties; otherwise one is sampled.
struct SamplingOptions {
  bool greedy = false;              ///< take the likeliest token: no temperature, top-k, top-p, min-p
  double temperature = 1.0;         ///< logits are divided by it
  std::int64_t top_k = 0;           ///< keep the k likeliest tokens, and those as likely as the last; 0: all
  double top_p = 1.0;               ///< keep the likeliest tokens whose probabilities sum to this
  double min_p = 0.0;               ///< keep tokens with at least this times the likeliest one's probability
  double repetition_penalty = 1.0;  ///< logits of tokens that occurred: over it if positive, else times it
  double frequency_penalty = 0.0;   ///< subtracted from a token's logit for each time it occurred
  std::uint64_t seed = 0;           ///< row r draws what generating that row alone with seed + r would draw
};

/// What ends a row before it has max_new_tokens.
struct StopOptions {
  /// Absent: the tokens that the model's generation_config.json, config.json or tokenizer lists.
  std::optional<std::vector<std::int64_t>> tokens = std::nullopt;
  /// The token that completes such a string is kept, the row's text ends before it. Needs a tokenizer.
  std::vector<std::string> strings = {};
};

/// What a generation calls while it runs: returns whether to continue, or nothing, which is to continue.
template <typename Value>
class GenerateCallback : public std::function<bool(Value)> {
 public:
  using std::function<bool(Value)>::function;
  /// An existing function.
  GenerateCallback(std::function<bool(Value)> f) : std::function<bool(Value)>(std::move(f)) {}  // NOLINT
  /// A callable that returns nothing.
  template <std::invocable<Value> F>
  requires std::is_void_v<std::invoke_result_t<F&, Value>> GenerateCallback(
      F f)  // NOLINT: a callable is a callback
  {
    if constexpr (requires { f == nullptr; }) {
      if (f == nullptr) return;  // no callback, as for one that returns a bool
    }
    std::function<bool(Value)>::operator=([f = std::move(f)](Value value) mutable {
      f(value);
      return true;
    });
  }

  /// Whether it may be called again with what it was called with before. If all that is called during a
  /// generation may be, memory that runs out is freed and the generation starts again.
  bool repeatable = false;
};

/// Everything about a generation except its prompt. For designated initialisers, which C++ takes in the order
/// of these declarations.
struct GenerateOptions {
  std::int64_t max_new_tokens = 16;  ///< new tokens per row at most
  SamplingOptions sampling = {};     ///< how each token is picked
  StopOptions stop = {};             ///< what ends a row earlier
  /// Receives the continuation's text in pieces, as soon as no later token can change them. For a
  /// single row, and models with a tokenizer.
  GenerateCallback<std::string_view> on_text = nullptr;
  /// Receives the tokens of each step, [batch] int64, -1 for rows that have ended.
  GenerateCallback<const at::Tensor&> on_tokens = nullptr;

  /// Hooks see what each step computes: first all columns of the prompt, then one new column at a time.
  Hooks hooks = {};
  /// Edits in every step. Positions are absolute: an edit applies in the step that computes its column, and
  /// open ranges cover columns that are yet to come. Negative positions count from the newest column.
  Edits edits = {};
  /// Edits only while the prompt runs. A position of a later column is an error.
  Edits prompt_edits = {};
  /// Edits only in the columns of new tokens. A position in the prompt is an error; -1 is the newest column.
  Edits new_token_edits = {};
  /// Activations to keep at every step. Their position axis covers prompt and continuation (an encoder's
  /// covers its input), as if the final tokens had been run once; rows of scores and patterns end with -inf
  /// and 0 for keys that were yet to come.
  Selection capture = {};
  KeepOptions keep = {};  ///< how much of each captured activation, and where
  /// Launch each kernel separately, even if the device could replay recordings of equal steps
  /// (docs/gpu.md).
  bool eager = false;
  /// Threads that LibTorch uses for this generation; absent: its current number.
  std::optional<int> threads = std::nullopt;
};

/// What a generation returns.
struct GenerateResult {
  at::Tensor tokens;          ///< [batch, pos] int64: the prompt (or the decoder's), then the continuation
  at::Tensor attention_mask;  ///< [batch, pos] bool: false for padding, and after the end of a row
  /// [batch, continuation] nats: the model's log probability of each new token, before penalties and
  /// sampling; 0 after the end of a row.
  at::Tensor log_probs;
  std::vector<std::string> texts;   ///< each row's continuation; empty without a tokenizer
  std::vector<StopReason> stopped;  ///< each row
  ActivationCache cache;            ///< what was captured
  /// Remarks on how it was computed: on a device that replays recorded runs, why steps could not be
  /// recorded.
  std::vector<std::string> notes;
};

/// The logits that tokens are sampled from, [batch, vocab] in float32 or better, after the penalties and
/// filters of `options`; -inf for tokens that a filter rules out. `occurred` [batch, vocab] counts how often
/// each token is in its row; undefined if no penalty is set. Throws ConfigError for options out of range.
///
/// Holtzman et al. 2020 (top-p), Keskar et al. 2019 (repetition penalty), Nguyen et al. 2025 (min-p).
at::Tensor sampling_logits(const at::Tensor& logits, const at::Tensor& occurred,
                           const SamplingOptions& options);

}  // namespace hooked
