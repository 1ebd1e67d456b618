#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "hooked/core/export.h"
#include "hooked/hooks/activation_name.h"
#include "hooked/hooks/selection.h"

namespace HOOKED_EXPORT hooked {

/// The general form of a hook's callable. Returning a tensor replaces the activation, nothing keeps it.
using HookFunction =
    std::function<std::optional<at::Tensor>(const at::Tensor& value, const ActivationName& name)>;

/// Anything callable as `(tensor)` or `(tensor, name)` that returns a tensor (an editing hook), nothing (an
/// observer) or an optional tensor.
template <typename F>
concept HookCallable = requires(F f, const at::Tensor& value) {
  f(value);
}
|| requires(F f, const at::Tensor& value, const ActivationName& name) { f(value, name); };

/// Wraps any HookCallable.
template <HookCallable F>
HookFunction make_hook_function(F f) {
  return
      [f = std::move(f)](const at::Tensor& value,
                         [[maybe_unused]] const ActivationName& name) mutable -> std::optional<at::Tensor> {
        const auto call = [&]() -> decltype(auto) {
          if constexpr (std::invocable<F&, const at::Tensor&, const ActivationName&>) {
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
/// cannot be detected. What a hook throws reaches the caller of the run with its type and, if that is a type
/// of the standard library, of LibTorch or ours, with the point in its text.
struct Hook {
  /// Calls `function` at every activation that `where` selects.
  template <HookCallable F>
  Hook(Selection where, F function, HookDirection direction = HookDirection::forward)
      : where(std::move(where)), function(make_hook_function(std::move(function))), direction(direction) {}

  Selection where;          ///< the activations
  HookFunction function;    ///< what is called
  HookDirection direction;  ///< forward: gets the activation; backward: its gradient
};

}  // namespace hooked
