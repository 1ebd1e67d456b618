#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "hooked/core/export.h"
#include "hooked/core/one_or_more.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/selection.h"

namespace HOOKED_EXPORT hooked {

/// Which columns of its sequence a run shows a hook.
struct HookStep {
  /// The first column that this run computes, of the sequence that the point shows (the encoder's input or
  /// the main tokens). Earlier ones belong to a prefix or to earlier steps of a generation.
  std::int64_t first_column = 0;
  /// Whether a generation is computing columns after its prompt. False in a run, and for the prompt.
  bool new_tokens = false;
  at::Tensor mask = {};  ///< [batch, pos] bool, true for real tokens; undefined: all are real
};

/// The general form of a hook's callable. Returning a tensor replaces the activation, nothing keeps it.
using HookFunction = std::function<std::optional<at::Tensor>(
    const at::Tensor& value, const ActivationName& name, const HookStep& step)>;

/// Anything callable as `(tensor)`, `(tensor, name)` or `(tensor, name, step)` that returns a tensor (an
/// editing hook), nothing (an observer) or an optional tensor.
template <typename F>
concept HookCallable =
    std::invocable<F&, const at::Tensor&> || std::invocable<F&, const at::Tensor&, const ActivationName&> ||
    std::invocable<F&, const at::Tensor&, const ActivationName&, const HookStep&>;

/// Wraps any HookCallable.
template <HookCallable F>
HookFunction make_hook_function(F f) {
  return [f = std::move(f)](const at::Tensor& value, [[maybe_unused]] const ActivationName& name,
                            [[maybe_unused]] const HookStep& step) mutable -> std::optional<at::Tensor> {
    const auto call = [&]() -> decltype(auto) {
      if constexpr (std::invocable<F&, const at::Tensor&, const ActivationName&, const HookStep&>) {
        return f(value, name, step);
      } else if constexpr (std::invocable<F&, const at::Tensor&, const ActivationName&>) {
        return f(value, name);
      } else {
        return f(value);
      }
    };
    using Result = decltype(call());
    if constexpr (std::is_void_v<Result>) {
      call();
      return std::nullopt;
    } else {
      static_assert(std::is_convertible_v<Result, std::optional<at::Tensor>>,
                    "a hook returns a tensor (it edits), an optional tensor, or nothing (it observes)");
      return call();
    }
  };
}

/// Whether a hook is called in the forward or the backward pass.
enum class HookDirection : std::uint8_t {
  forward,   ///< called with the activation
  backward,  ///< called with the gradient of the run's metric with respect to the activation
};

/// A callable and where to call it.
///
/// The returned tensor must have the shape, dtype and device of the one received, and a hook must not write
/// in place into what it receives. Both throw HookError when they happen, but writing through `.data()`
/// cannot be detected. What a hook throws reaches the caller of the run with its type and, if that is
/// std::runtime_error, std::logic_error or another of the standard exceptions, LibTorch's or ours, with the
/// point in its text.
struct Hook {
  /// Calls `function` at every activation that `where` selects.
  template <HookCallable F>
  Hook(Selection where, F function, HookDirection direction = HookDirection::forward)
      : where(std::move(where)), function(make_hook_function(std::move(function))), direction(direction) {}

  Selection where;          ///< the activations
  HookFunction function;    ///< what is called
  HookDirection direction;  ///< forward: gets the activation; backward: its gradient
};

/// What options take: one hook, several, or one as `{act::z(1), function}`.
using Hooks = OneOrMore<Hook>;

}  // namespace hooked
