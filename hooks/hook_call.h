#pragma once

#include <optional>

#include "hooked/hooks/hook.h"

namespace hooked {

/// Calls a hook. What it throws passes with its type, and its text then names the point if the type is one of
/// hooked, of LibTorch, or exactly one of the standard library's `<stdexcept>`.
std::optional<at::Tensor> call_hook(const HookFunction& hook, const at::Tensor& value,
                                    const ActivationName& name, const HookStep& step);

}  // namespace hooked
