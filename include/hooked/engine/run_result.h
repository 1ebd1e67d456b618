#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/engine/prefix.h"
#include "hooked/engine/run_options.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// How a note begins if it says that numbers are NaN or infinite (NotFinite::text).
inline constexpr std::string_view kNotFinite = "not finite: ";

/// Where a run's numbers are NaN or infinite although the token there is real.
struct NotFinite {
  std::string values;                 ///< `logits`, `loss`, `residual`, or the name of an activation
  std::int64_t positions = 1;         ///< with such numbers, counted over all rows
  std::int64_t looked_at = 1;         ///< positions of real tokens that were checked
  std::int64_t row = 0;               ///< the first such position: its row of the batch
  std::int64_t position = 0;          ///< and its column, from 0
  at::ScalarType dtype = at::kFloat;  ///< of the model

  /// One sentence, which begins with kNotFinite.
  std::string text() const;
};

/// What a run returns: one output, the one its options asked for, and what was kept on the way. The functions
/// that read an output throw HookError if the run returned another or none.
class RunResult {
 public:
  ActivationCache cache;         ///< what was captured
  ActivationCache gradients;     ///< d metric / d activation, with the activations' names and shapes
  std::optional<Prefix> prefix;  ///< with `keep_prefix`: the run's prefix and its own columns
  /// Remarks on the run: that its numbers are not finite; on a device that replays recorded runs, why this
  /// one could not be recorded.
  std::vector<std::string> notes;

  /// [batch, pos or logit_positions, vocab or logit_tokens], in float32; in float64 for float64 models.
  const at::Tensor logits() const { return require(Output::logits); }
  /// The absolute columns of the logits' second axis, in the order asked for, if the run computed only some;
  /// nothing: all of the run's.
  const std::optional<std::vector<std::int64_t>>& logit_positions() const& noexcept {
    return logit_positions_;
  }
  /// The same for a temporary, as a copy.
  std::optional<std::vector<std::int64_t>> logit_positions() const&& { return logit_positions_; }
  /// The tokens of the logits' last axis, as asked for; nothing: the vocabulary.
  const std::optional<std::vector<std::int64_t>>& logit_tokens() const& noexcept { return logit_tokens_; }
  /// The same for a temporary, as a copy.
  std::optional<std::vector<std::int64_t>> logit_tokens() const&& { return logit_tokens_; }
  /// Scalar or [batch, pos - 1], nats.
  const at::Tensor loss() const { return require(Output::loss); }
  /// [batch, pos, d_model].
  const at::Tensor residual() const { return require(Output::residual); }
  /// The metric's value, a scalar; throws HookError if no gradients were asked for.
  const at::Tensor metric() const;

  /// Where the output is NaN or infinite at a real token, or nothing. For a run without output, the last
  /// activation that the cache keeps is checked (except scores, which may be -inf). Runs on the CPU check it
  /// themselves, and the result is among the notes; after a run on another device this call waits for it.
  std::optional<NotFinite> not_finite() const;

  /// A copy on another device, without the prefix: its output, cache, gradients and notes.
  RunResult to(const c10::Device& device) const;

  /// Which output it holds.
  Output output() const noexcept { return kind_; }

 private:
  friend class HookedTransformer;

  at::Tensor require(Output wanted) const;

  Output kind_ = Output::none;
  at::Tensor output_;
  std::optional<std::vector<std::int64_t>> logit_positions_, logit_tokens_;
  at::Tensor metric_;
  TokenColumns columns_;  // of the run
  at::ScalarType model_dtype_ = at::kFloat;
};

/// What run_with_cache returns: a run that can also be destructured into logits and cache.
///
///     const auto [logits, cache] = model.run_with_cache(tokens);
class CachedRun : public RunResult {};

}  // namespace hooked

template <>
struct std::tuple_size<hooked::CachedRun> : std::integral_constant<std::size_t, 2> {};
template <>
struct std::tuple_element<0, hooked::CachedRun> {
  using type = at::Tensor;
};
template <>
struct std::tuple_element<1, hooked::CachedRun> {
  using type = hooked::ActivationCache;
};

namespace HOOKED_EXPORT hooked {

/// The logits (0) or the cache (1) of a run. Throws HookError if the run computed no logits.
template <std::size_t I>
decltype(auto) get(const CachedRun& run) {
  if constexpr (I == 0) {
    return run.logits();
  } else {
    return (run.cache);
  }
}
/// The same for a temporary, moved out of it.
template <std::size_t I>
std::tuple_element_t<I, CachedRun> get(CachedRun&& run) {
  if constexpr (I == 0) {
    return run.logits();
  } else {
    return std::move(run.cache);
  }
}

}  // namespace hooked
